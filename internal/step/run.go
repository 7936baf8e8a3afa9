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
	meter       func(Measurement) // may be nil
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
		meter:     s.measure,
	}
	for _, place := range []struct {
		store *Store
		at    Location
	}{{&r.source, config.Source}, {&r.destination, config.Destination}, {&r.state, config.State}} {
		if *place.store, err = s.open(place.at.Bucket); err != nil {
			return nil, err
		}
	}
	r.state = wired{r.state}
	r.lock, err = r.openLock(lease.Config{
		Poll:       config.pollEvery(),
		MaxWaiters: config.Lock.MaxWaiters,
		Priority:   config.Lock.Priority,
	})
	if err != nil {
		return nil, err
	}
	return r, nil
}

// openLock opens the pipeline's lock for one who queues as c says.
func (r *run) openLock(c lease.Config) (*lease.Lock, error) {
	register, err := s3lock.New(r.state, LockKey(r.config))
	if err != nil {
		return nil, err
	}
	c.TTL, c.Grace, c.Logger = seconds(r.config.Lock.TTLSeconds), seconds(r.config.Lock.GraceSeconds), r.log
	return lease.New(register, c)
}

// holding picks up the lease that the run took in an earlier state and keeps
// it alive until stop is called. The returned context ends, with
// lease.ErrLost as its cause, before anybody else can hold the lock.
//
// A lease that is getting old is renewed ahead of the work and not beside it: a
// run of many calls, each shorter than a renewal, would lose it otherwise.
func (r *run) holding(ctx context.Context, token int64) (_ context.Context, stop func(), err error) {
	grant, err := r.lock.Resume(ctx, r.execution.ID, token)
	if err != nil {
		return nil, nil, err
	}
	grant, err = r.lock.RenewIfOlder(ctx, grant, seconds(r.config.Lock.TTLSeconds)/3)
	if err != nil {
		return nil, nil, err
	}
	kept, stop := r.lock.Keep(ctx, grant)
	return kept, stop, nil
}

func (r *run) ledger() (*ledger.Ledger, error) {
	return ledger.Open(r.state, LedgerPrefix(r.config))
}

// stillHolding returns why the run may not act any more, or nil. It is asked
// before each effect that others can see.
func stillHolding(ctx context.Context) error { return whyEnded(ctx, ctx.Err()) }

// whyEnded prefers the reason that a context was given over the bare fact that
// it ended, so that a lost lease is reported as one.
func whyEnded(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}
