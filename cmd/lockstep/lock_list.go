package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/lockstep-pipeline/lockstep/pkg/bucket"
	"github.com/lockstep-pipeline/lockstep/pkg/lease"
	"github.com/lockstep-pipeline/lockstep/pkg/s3lock"
)

// atOnce is how many locks are read at the same time.
const atOnce = 8

// listReport is what "lock list -o json" prints.
type listReport struct {
	Prefix string      `json:"prefix"`
	Locks  []listEntry `json:"locks"`
}

// listEntry is one lock of a list. State and Error exclude each other.
type listEntry struct {
	Lock      string         `json:"lock"`
	State     lockState      `json:"state,omitempty"`
	Error     string         `json:"error,omitempty"`
	Corrupt   string         `json:"corrupt,omitempty"`
	Limit     int            `json:"limit,omitempty"`
	LastToken int64          `json:"lastToken"`
	Holders   []lease.Holder `json:"holders"`
	Waiters   []lease.Waiter `json:"waiters"`
	Now       time.Time      `json:"now"`
}

// lockList is "lockstep lock list".
type lockList struct {
	Output  string `short:"o" enum:"text,json" default:"text" help:"text or json."`
	s3Flags `embed:""`

	URL prefixURL `arg:"" name:"url" help:"s3://bucket/prefix. The prefix is taken as it is: locks also lists locks2/nightly, locks/ does not."`
}

// Help is the rest of "lockstep lock list --help".
func (lockList) Help() string {
	return `Reads every object below the prefix. One that is not a lock is shown as corrupt, so keep locks in a folder of their own.
-o json prints {"prefix", "locks": [{"lock", "state", "corrupt", "limit", "lastToken", "holders", "waiters", "now"}]}, as
in lock status; a lock that S3 did not give out has "error" in place of "state".

Exit codes: 0 all could be asked, whatever their state; 64 the command line or the AWS settings were refused; 69 S3
refused, or could not be reached, for at least one.`
}

// Run implements the command.
func (c lockList) Run(ctx context.Context, to *console) error {
	store, err := c.open(ctx, c.URL.Bucket)
	if err != nil {
		return refuse(to.Err, err)
	}
	keys, err := lockKeys(ctx, store, c.URL.Prefix)
	if err != nil {
		return failed(to.Err, err)
	}
	report := listReport{Prefix: c.URL.String(), Locks: make([]listEntry, len(keys))}
	var group errgroup.Group
	group.SetLimit(atOnce)
	for i, key := range keys {
		group.Go(func() error {
			report.Locks[i] = lookAt(ctx, store, objectURL{c.URL.Bucket, key})
			return nil
		})
	}
	_ = group.Wait() // each entry carries its own error
	if c.Output == "json" {
		err = writeJSON(to.Out, report)
	} else {
		err = writeList(to.Out, report)
	}
	if err != nil {
		return fmt.Errorf("print the list: %w", err)
	}
	for _, entry := range report.Locks {
		if entry.Error != "" {
			return exitCode(exitUnavailable)
		}
	}
	return nil
}

// lockKeys lists what may be locks: everything but folder markers.
func lockKeys(ctx context.Context, store *bucket.Bucket, prefix string) ([]string, error) {
	var keys []string
	for page, err := range store.List(ctx, bucket.ListOptions{Prefix: prefix}) {
		if err != nil {
			return nil, err
		}
		for _, entry := range page.Entries {
			if !strings.HasSuffix(entry.Key, "/") {
				keys = append(keys, entry.Key)
			}
		}
	}
	return keys, nil
}

// lookAt reads one lock of a list.
func lookAt(ctx context.Context, store *bucket.Bucket, url objectURL) listEntry {
	entry := listEntry{Lock: url.String(), Holders: []lease.Holder{}, Waiters: []lease.Waiter{}}
	status, err := inspect(ctx, store, url.Key)
	if err != nil {
		entry.Error = err.Error()
		return entry
	}
	entry.State, entry.Corrupt, entry.Now = stateOf(status), status.Corrupt, status.Now
	entry.Limit, entry.LastToken = status.Limit, status.LastToken
	entry.Holders, entry.Waiters = status.Holders, status.Waiters
	return entry
}

func inspect(ctx context.Context, store *bucket.Bucket, key string) (lease.Status, error) {
	register, err := s3lock.New(store, key)
	if err != nil {
		return lease.Status{}, err
	}
	lock, err := lease.New(register, lease.Config{})
	if err != nil {
		return lease.Status{}, err
	}
	return lock.Inspect(ctx)
}
