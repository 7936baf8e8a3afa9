//go:build !unix

package main

import (
	"os"
	"syscall"
)

var (
	ending  = []os.Signal{syscall.SIGINT, syscall.SIGTERM}
	passing []os.Signal
)
