package step

import (
	"context"
	"encoding/json"
	"log/slog"

	"github.com/lockstep-pipeline/lockstep/pkg/lease"
	"github.com/lockstep-pipeline/lockstep/pkg/ledger"
	"github.com/lockstep-pipeline/lockstep/pkg/s3lock"
)

// run is one execution at work: its configuration, its three places and its
// lock.
type run struct {
	execution   Execution
	config      RunConfig
	source      Store
	destination Store
	state       Store
	lock        *lease.Lock
	log         *slog.Logger
}

// begin reads the configuration and opens what a step of the run needs.
// Nothing is dialled.
func (s *Steps) begin(execution Execution, raw json.RawMessage) (*run, error) {
	config, err := ParseConfig(raw)
	if err != nil {
		return nil, err
	}
	if execution.ID == "" || execution.Name == "" {
		return nil, &InvalidInputError{"execution.id and execution.name are required; they come from $$.Execution"}
	}
	r := &run{
		execution: execution,
		config:    config,
		log:       s.log.With("pipeline", config.Pipeline, "run", execution.Name),
	}
	for _, place := range []struct {
		store *Store
		at    Location
	}{{&r.source, config.Source}, {&r.destination, config.Destination}, {&r.state, config.State}} {
		if *place.store, err = s.open(place.at.Bucket); err != nil {
			return nil, err
		}
	}
	register, err := s3lock.New(r.state, LockKey(config))
	if err != nil {
		return nil, err
	}
	r.lock, err = lease.New(register, lease.Config{
		TTL:        seconds(config.Lock.TTLSeconds),
		Grace:      seconds(config.Lock.GraceSeconds),
		Poll:       config.pollEvery(),
		MaxWaiters: config.Lock.MaxWaiters,
		Priority:   config.Lock.Priority,
		Logger:     r.log,
	})
	if err != nil {
		return nil, err
	}
	return r, nil
}

// holding picks up the lease that the run took in an earlier state and keeps
// it alive until stop is called. The returned context ends, with
// lease.ErrLost as its cause, before anybody else can hold the lock.
func (r *run) holding(ctx context.Context, token int64) (_ context.Context, stop func(), err error) {
	grant, err := r.lock.Resume(ctx, r.execution.ID, token)
	if err != nil {
		return nil, nil, err
	}
	kept, stop := r.lock.Keep(ctx, grant)
	return kept, stop, nil
}

func (r *run) ledger() (*ledger.Ledger, error) {
	return ledger.Open(r.state, ledgerPrefix(r.config))
}

// whyEnded prefers the reason that a context was given over the bare fact that
// it ended, so that a lost lease is reported as one.
func whyEnded(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); err != nil && cause != nil && ctx.Err() != nil {
		return cause
	}
	return err
}
