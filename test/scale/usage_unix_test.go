//go:build unix

package scale

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"syscall"
	"time"
)

// cpuTime is what this process has used so far, user and system.
func cpuTime() (time.Duration, error) {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		return 0, fmt.Errorf("getrusage: %w", err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano()), nil
}

// peakMemory is the most that this process ever had resident, in bytes.
func peakMemory() (int64, error) {
	if runtime.GOOS == "linux" {
		return peakMemoryOf(os.Getpid())
	}
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		return 0, fmt.Errorf("getrusage: %w", err)
	}
	if runtime.GOOS == "darwin" {
		return int64(used.Maxrss), nil // bytes there, kilobytes elsewhere
	}
	return int64(used.Maxrss) << 10, nil
}

// peakMemoryOf is that of another process. Linux's ru_maxrss will not do: a
// child inherits that of its parent, up to where it became a program of its own.
func peakMemoryOf(pid int) (int64, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, fmt.Errorf("peak memory: %w", err)
	}
	for line := range bytes.Lines(status) {
		var kilobytes int64
		if _, err := fmt.Sscanf(string(line), "VmHWM: %d kB", &kilobytes); err == nil {
			return kilobytes << 10, nil
		}
	}
	return 0, fmt.Errorf("peak memory: /proc/%d/status has no VmHWM", pid)
}
