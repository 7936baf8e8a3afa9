//go:build unix

package main

import (
	"os"
	"syscall"
)

var (
	// ending signals ask for an end; they are for all that the command started.
	ending = []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT}
	// passing signals mean what the command makes of them.
	passing = []os.Signal{syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGWINCH}
)
