// Command s3 serves, until it is interrupted, an S3 on this machine whose
// buckets suit the events: make sam-s3.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/lockstep-pipeline/lockstep/test/sam"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "s3:", err)
		os.Exit(1)
	}
}

func run() error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	addresses := os.Args[1:]
	if len(addresses) == 0 {
		addresses = sam.Addresses()
	}
	laptop, err := sam.Start(ctx, addresses...)
	if err != nil {
		return err
	}
	fmt.Printf("S3 for SAM at %s, with %d files in the source bucket; the next run gets token %d. Ctrl-C ends it.\n",
		strings.Join(laptop.At(), " and "), laptop.Files(), sam.Token)
	<-ctx.Done()
	return laptop.Close(context.WithoutCancel(ctx))
}
