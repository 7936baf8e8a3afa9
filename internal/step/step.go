// Package step is what each function of a run does, free of Lambda: acquire,
// discover, process, commit, release, and the JSON that passes between them.
//
// Each step promises that
//   - bad configuration is refused before anything is touched, naming the field;
//   - it may be called again with the same input (Lambda retries, Step
//     Functions redrive) and ends in the same state;
//   - every side effect after AcquireLock happens under the run's lease, and
//     nothing is published once the lease is lost;
//   - it returns every field that a path of the state machine reads, because
//     States.Runtime cannot be caught and would leave the lock held.
//
// It reads no environment, builds no clients and knows no emulator.
package step

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"iter"
	"log/slog"

	"github.com/lockstep-pipeline/lockstep/pkg/bucket"
	"github.com/lockstep-pipeline/lockstep/pkg/process"
)

// Store is the bucket that a step works on; *bucket.Bucket and *bucket.Memory
// are one.
type Store interface {
	Name() string
	Get(ctx context.Context, key string, c bucket.Condition) (*bucket.Object, error)
	GetRange(ctx context.Context, key string, c bucket.Condition, offset, length int64) (*bucket.Object, error)
	Head(ctx context.Context, key string) (*bucket.Object, error)
	Put(ctx context.Context, key string, body io.ReadSeeker, contentType string, c bucket.Condition) (bucket.Written, error)
	PutWith(ctx context.Context, key string, body io.ReadSeeker, o bucket.PutOptions) (bucket.Written, error)
	Upload(ctx context.Context, key string, body io.Reader, contentType string) (bucket.Written, error)
	Delete(ctx context.Context, key string) error
	List(ctx context.Context, o bucket.ListOptions) iter.Seq2[bucket.Page, error]
}

// Config holds what the steps need from their surroundings.
type Config struct {
	// Open returns the bucket of that name. Required.
	Open func(name string) (Store, error)
	// Processor turns a source file into outputs. Required by Process. Where it
	// has a method Settings() string, files that failed under other settings are
	// due when the settings change.
	Processor process.Processor
	// Log receives one line per decision. Nil is silent.
	Log *slog.Logger
	// Measure is told what the steps measure. Nil measures nothing.
	Measure func(Measurement)
}

// Steps are the functions of a run.
type Steps struct {
	open      func(name string) (Store, error)
	processor process.Processor
	settings  string // fingerprint of the processor's settings
	log       *slog.Logger
	measure   func(Measurement)
}

// New returns the steps. It does not dial.
func New(c Config) (*Steps, error) {
	if c.Open == nil {
		return nil, errors.New("step: no way to open buckets given")
	}
	log := c.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Steps{open: c.Open, processor: c.Processor, settings: fingerprint(c.Processor), log: log, measure: c.Measure}, nil
}

// fingerprint stands for the settings of a processor: 16 hex digits, or "" for
// one that has no settings to tell.
func fingerprint(p process.Processor) string {
	configured, ok := p.(interface{ Settings() string })
	if !ok {
		return ""
	}
	sum := sha256.Sum256([]byte(configured.Settings()))
	return hex.EncodeToString(sum[:8])
}
