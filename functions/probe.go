package functions

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/lockstep-pipeline/lockstep/internal/step"
	"github.com/lockstep-pipeline/lockstep/pkg/s3lock"
)

// probeTime leaves acquire, which has a minute, time for the lock itself.
const probeTime = 20 * time.Second

// A prober tries the place of a lock before the lock is used for the first time
// in this process. Its nil value tries nothing.
type prober struct {
	open func(name string) (step.Store, error)
	log  *slog.Logger

	mu   sync.Mutex
	good map[step.Location]bool
}

// before puts the trial ahead of acquire. Only a good one is remembered: an
// endpoint may be repaired while this process lives.
func (p *prober) before(acquire acquireStep) acquireStep {
	if p == nil {
		return acquire
	}
	return func(ctx context.Context, in step.AcquireInput) (step.AcquireOutput, error) {
		config, err := step.ParseConfig(in.Execution.Input)
		if err != nil {
			return step.AcquireOutput{}, err
		}
		if err := p.try(ctx, config.State); err != nil {
			return step.AcquireOutput{}, err
		}
		return acquire(ctx, in)
	}
}

type acquireStep = func(context.Context, step.AcquireInput) (step.AcquireOutput, error)

func (p *prober) try(ctx context.Context, place step.Location) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.good[place] {
		return nil
	}
	store, err := p.open(place.Bucket)
	if err != nil {
		return err
	}
	report, err := s3lock.Probe(ctx, store, place.Prefix, s3lock.ProbeConfig{Timeout: probeTime, List: true})
	p.log.InfoContext(ctx, "probe", "url", report.URL, "verdict", report.Verdict, "requests", report.Requests, "seconds", report.Seconds)
	if err != nil {
		return err
	}
	if p.good == nil {
		p.good = map[step.Location]bool{}
	}
	p.good[place] = true
	return nil
}
