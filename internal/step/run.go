package step

import (
	"context"
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
	settings    string // fingerprint of the processor's settings
	log         *slog.Logger
	meter       func(Measurement) // may be nil
}

// begin reads the configuration and opens what a step of the run needs.
// Nothing is dialled.
func (s *Steps) begin(execution Execution) (*run, error) {
	config, err := ParseConfig(execution.Input)
	if err != nil {
		return nil, err
	}
	if execution.ID == "" || execution.Name == "" {
		return nil, &InvalidInputError{"execution.Id and execution.Name are required; they come from $$.Execution"}
	}
	r := &run{
		execution: execution,
		config:    config,
		settings:  s.settings,
		log:       s.log.With("pipeline", config.Pipeline, "run", execution.Name),
		meter:     s.measure,
	}
	for _, place := range []struct {
		store *Store
		at    Location
	}{{&r.source, config.Source}, {&r.destination, config.Destination.Location()}, {&r.state, config.State}} {
		if *place.store, err = s.open(place.at.Bucket); err != nil {
			return nil, err
		}
	}
	r.state = wired{r.state}
	r.lock, err = r.openLock(lease.Config{
		Poll:       config.pollEvery(),
		MaxWaiters: config.Lock.MaxWaiters,
		Priority:   config.Lock.Priority,
		Once:       true,
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
	grant, err := r.lock.Resume(ctx, r.execution.owner(), token)
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

// ledger is what the runs of the pipeline have done.
func (r *run) ledger() (*ledger.Ledger, error) {
	return ledger.Open(r.state, LedgerPrefix(r.config))
}

// versions are those of the state bucket's objects.
func (r *run) versions() (ledger.Versions, bool) {
	store := r.state
	if w, is := store.(wired); is {
		store = w.Store
	}
	versions, ok := store.(ledger.Versions)
	return versions, ok
}

// selection is what the run takes.
func (r *run) selection() ledger.Selection {
	s := r.config.selection()
	s.Settings = r.settings
	return s
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
