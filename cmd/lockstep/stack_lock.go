package main

import (
	"context"
	"errors"
	"io"

	"github.com/lockstep-pipeline/lockstep/internal/step"
	"github.com/lockstep-pipeline/lockstep/pkg/lease"
)

// lockFlags name one lock: by its URL, or as that of a deployed pipeline.
type lockFlags struct {
	stackFlags `embed:""`
	s3Flags    `embed:""`

	URL objectURL `arg:"" optional:"" name:"url" help:"The lock: s3://bucket/key; or give --stack."`
}

// openLock finds the lock, so that URL is known, and returns it for looking at.
// Its error was explained already.
func (f *lockFlags) openLock(ctx context.Context, w io.Writer) (*lease.Lock, error) {
	given := f.URL != objectURL{}
	switch {
	case given == (f.Stack != ""):
		return nil, refuse(w, errors.New("say which lock: give its URL, or --stack"))
	case f.Stack == "" && f.Pipeline != "":
		return nil, refuse(w, errOfStack)
	case !given:
		p, err := f.find(ctx, f.s3Flags.aws())
		if err != nil {
			return nil, explainAWS(ctx, w, err)
		}
		config, err := p.config()
		if err != nil {
			return nil, refuse(w, err)
		}
		f.URL = objectURL{config.State.Bucket, step.LockKey(config)}
		f.Region = f.s3Flags.aws().at(p.Machine).Region
	}
	lock, err := f.s3Flags.openLock(ctx, f.URL)
	if err != nil {
		return nil, refuse(w, err)
	}
	return lock, nil
}
