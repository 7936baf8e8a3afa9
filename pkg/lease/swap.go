package lease

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// change is a transition bound to its request. It may be called several times
// and starts from nothing each time; the last call's outcome counts. It
// returns whether next has to be written.
type change func(v view) (next document, write bool, err error)

// sound is a change of a document that can be read.
func sound(c func(d document, now time.Time) (document, bool)) change {
	return func(v view) (document, bool, error) {
		if err := v.unreadable(); err != nil {
			return document{}, false, err
		}
		next, write := c(v.doc, v.now)
		return next, write, nil
	}
}

// apply carries a change to the register and returns the view in which it
// holds. It starts from start, or reads first where start is nil. A remembered
// start saves a request; but a change that would not be written from memory is
// tried again on what is read, so that no refusal is based on memory. An error
// that wraps ErrUncertain means that the last write may have landed, or may
// still land; the view has the document that it was to leave.
func (l *Lock) apply(ctx context.Context, start *view, p *pace, c change) (view, error) {
	v := start
	for {
		if v == nil {
			read, err := l.load(ctx, p)
			if err != nil {
				return view{}, err
			}
			v = &read
		}
		next, write, err := c(*v)
		if (err != nil || !write) && v.remembered {
			v = nil
			continue
		}
		if err != nil || !write {
			return *v, err
		}
		settled, done, err := l.swap(ctx, *v, next, p)
		if err != nil || done {
			return settled, err
		}
		v = &settled
	}
}

// swap writes next over v, once, and finds out whether it did. It returns the
// view that tells: landed, or another one on which the change has to be tried
// anew. After each answer that leaves a doubt it reads back. As long as the
// outcome is open, only the very same body may be sent again: then it does
// not matter which of the requests lands.
func (l *Lock) swap(ctx context.Context, v view, next document, p *pace) (view, bool, error) {
	nonce, err := l.dice.nonce()
	if err != nil {
		return view{}, false, err
	}
	next = next.seal(nonce)
	body, err := encode(next)
	if err != nil {
		return view{}, false, err
	}
	uncertain := false
	for {
		done, err := l.put(ctx, v, body, next)
		switch {
		case err == nil:
			return done, true, nil
		case errors.Is(err, ErrConflict):
		case errors.Is(err, ErrRefused):
			return view{doc: next}, false, doubt(uncertain, err)
		default:
			uncertain = true
		}
		if err := p.pause(ctx, err); err != nil {
			return view{doc: next}, false, doubt(uncertain, err)
		}
		back, err := l.load(ctx, p)
		if err != nil {
			return view{doc: next}, false, doubt(uncertain, err)
		}
		switch back.outcome(nonce, v.version) {
		case landed:
			return back, true, nil
		case overtaken:
			return back, false, nil
		}
		if !uncertain {
			return back, false, p.refusedWithoutCause(back)
		}
	}
}

// unreadable is why nothing can be made of the document, or nil.
func (v view) unreadable() error {
	switch {
	case v.newer != nil:
		return v.newer
	case v.bad != nil:
		return v.bad
	}
	return nil
}

// outcome is what became of a write.
type outcome int

const (
	landed    outcome = iota // whatever the reply said
	overtaken                // it did not land and never can: the version it names is gone
	open                     // it may still be under way
)

// outcome tells from what was read back what became of the write that was
// sealed with nonce, over version.
func (v view) outcome(nonce, version string) outcome {
	switch {
	case v.unreadable() == nil && v.doc.carries(nonce):
		return landed
	case v.version != version:
		return overtaken
	default:
		return open
	}
}

func doubt(uncertain bool, err error) error {
	if !uncertain || errors.Is(err, ErrUncertain) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrUncertain, err)
}

// put is one swap request.
func (l *Lock) put(ctx context.Context, v view, body []byte, next document) (view, error) {
	ctx, cancel := context.WithTimeout(ctx, l.attempt())
	defer cancel()
	sent := l.cfg.Clock.Read()
	r, err := l.reg.Swap(ctx, v.version, body)
	if err != nil {
		return view{}, err
	}
	if r.Version == "" || r.Now.IsZero() {
		return view{}, fmt.Errorf("%w: the answer carries no version or no server time", ErrUncertain)
	}
	done := view{doc: next, version: r.Version, sample: sample{now: utc(r.Now), sent: sent, came: l.cfg.Clock.Read()}}
	if !v.remembered {
		// Memory may be older than our clocks can be trusted for.
		done.before = &v.sample
	}
	l.remember(done)
	return done, nil
}

// load reads the register, conditionally where it was read before, and goes on
// through failures that may pass.
func (l *Lock) load(ctx context.Context, p *pace) (view, error) {
	for {
		v, err := l.get(ctx)
		if err == nil {
			p.answered()
			return v, nil
		}
		if errors.Is(err, ErrRefused) {
			return view{}, err
		}
		if err := p.pause(ctx, err); err != nil {
			return view{}, err
		}
	}
}

// get is one load request.
func (l *Lock) get(ctx context.Context) (view, error) {
	ctx, cancel := context.WithTimeout(ctx, l.attempt())
	defer cancel()
	l.mu.Lock()
	known := l.known
	l.mu.Unlock()
	sent := l.cfg.Clock.Read()
	r, err := l.reg.Load(ctx, known.version)
	if err != nil {
		return view{}, err
	}
	v, err := l.view(r, known, sent)
	if err != nil {
		return view{}, err
	}
	l.remember(v)
	return v, nil
}

// attempt is how long one request may take: a hung connection must leave time
// for another before the lease, or the cleanup, ends. Giving up early is safe:
// the request is read back or sent again as it was.
func (l *Lock) attempt() time.Duration {
	return min(max(l.cfg.TTL/6, time.Second), 3*time.Second)
}
