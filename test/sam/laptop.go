package sam

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"

	lockstep "github.com/lockstep-pipeline/lockstep"
	"github.com/lockstep-pipeline/lockstep/internal/local"
	"github.com/lockstep-pipeline/lockstep/internal/step"
	"github.com/lockstep-pipeline/lockstep/pkg/bucket"
	"github.com/lockstep-pipeline/lockstep/samples"
)

// Port is where env.json looks for S3.
const Port = "9010"

// Token is what the first run gets that asks for the lock: the one that the
// events are about.
const Token = 1769850001000

// files are the samples that lie in the source bucket: two batches.
var files = []string{"seattle-weather/2012-*.csv", "penguins/*"}

// Laptop is an S3 on this machine whose buckets suit the events.
type Laptop struct {
	stack  *local.Stack
	server *http.Server
	served []chan struct{} // closed when a listener is no longer served
	at     []string        // host:port of the listeners
	files  int             // in the source bucket
	config step.RunConfig
}

// Addresses are where containers find this machine, as host:port: on Linux
// Docker's bridge, elsewhere the loopback interface, which is listened to in
// any case.
func Addresses() []string {
	hosts := []string{"127.0.0.1"}
	if bridge, err := net.InterfaceByName("docker0"); err == nil {
		addresses, _ := bridge.Addrs() // none, then
		for _, a := range addresses {
			if network, is := a.(*net.IPNet); is && network.IP.To4() != nil {
				hosts = append(hosts, network.IP.String())
			}
		}
	}
	for i, host := range hosts {
		hosts[i] = net.JoinHostPort(host, Port)
	}
	return hosts
}

// Start makes the buckets and serves them at the addresses.
func Start(ctx context.Context, addresses ...string) (_ *Laptop, err error) {
	l := &Laptop{}
	if l.config, err = step.ParseConfig(lockstep.ScheduleEvent); err != nil {
		return nil, err
	}
	if l.stack, err = local.Start(ctx, local.Config{Logger: slog.New(slog.DiscardHandler)}); err != nil {
		return nil, err
	}
	if err = l.fill(ctx); err == nil {
		err = l.serve(ctx, addresses)
	}
	if err != nil {
		return nil, errors.Join(err, l.Close(ctx))
	}
	return l, nil
}

// Close ends the service; what was in the buckets is gone.
func (l *Laptop) Close(ctx context.Context) error {
	var err error
	if l.server != nil {
		err = l.server.Close()
	}
	for _, served := range l.served {
		<-served
	}
	return errors.Join(err, l.stack.Close(ctx))
}

// Bucket opens one of the buckets.
func (l *Laptop) Bucket(name string) (*bucket.Bucket, error) {
	return bucket.New(l.stack.S3(), name, bucket.Options{})
}

// Files tells how many source files there are.
func (l *Laptop) Files() int { return l.files }

// At is where S3 is served, as host:port.
func (l *Laptop) At() []string { return l.at }

// fill uploads the files, and lets the lock have had a past.
func (l *Laptop) fill(ctx context.Context) error {
	for _, place := range []step.Location{l.config.Source, l.config.Destination.Location(), l.config.State} {
		if err := l.stack.CreateBucket(ctx, place.Bucket); err != nil {
			return err
		}
	}
	source, err := l.Bucket(l.config.Source.Bucket)
	if err != nil {
		return err
	}
	for _, pattern := range files {
		paths, err := fs.Glob(samples.FS(), pattern)
		if err != nil {
			return err
		}
		for _, path := range paths {
			content, err := fs.ReadFile(samples.FS(), path)
			if err != nil {
				return err
			}
			key := l.config.Source.Prefix + path
			if _, err := source.Put(ctx, key, bytes.NewReader(content), "", bucket.Condition{}); err != nil {
				return err
			}
			l.files++
		}
	}
	return l.spendTokens(ctx)
}

// spendTokens leaves the lock as earlier runs would have.
func (l *Laptop) spendTokens(ctx context.Context) error {
	state, err := l.Bucket(l.config.State.Bucket)
	if err != nil {
		return err
	}
	lock := fmt.Sprintf(`{"schema":2,"limit":1,"lastToken":%d,"holders":[],"waiters":[],"events":[],"ended":[],"nonce":"earlier runs"}`, Token-1)
	_, err = state.Put(ctx, step.LockKey(l.config), strings.NewReader(lock), "application/json", bucket.Condition{})
	return err
}

func (l *Laptop) serve(ctx context.Context, addresses []string) error {
	endpoint, err := url.Parse(l.stack.Endpoint())
	if err != nil {
		return err
	}
	l.server = &http.Server{Handler: httputil.NewSingleHostReverseProxy(endpoint)}
	for _, address := range addresses {
		var lc net.ListenConfig
		listener, err := lc.Listen(ctx, "tcp", address)
		if err != nil {
			return fmt.Errorf("serve S3 to containers: %w", err)
		}
		l.at = append(l.at, listener.Addr().String())
		served := make(chan struct{})
		l.served = append(l.served, served)
		go func() {
			defer close(served)
			_ = l.server.Serve(listener) // ErrServerClosed: the listener is ours
		}()
	}
	return nil
}
