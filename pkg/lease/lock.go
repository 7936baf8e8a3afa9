package lease

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"
)

// Lock is one client of one lock. Its methods may be called concurrently, also
// for different owners.
type Lock struct {
	reg  Register
	cfg  Config
	name string
	log  *slog.Logger
	dice *dice

	mu    sync.Mutex
	known view  // the last view of the register; zero before the first
	floor int64 // the highest token ever seen
}

// New returns a client of the lock in reg. It does not touch the register.
// Where reg is a fmt.Stringer, errors and logs call the lock by that name.
func New(reg Register, cfg Config) (*Lock, error) {
	if reg == nil {
		return nil, errors.New("new lock: no register given")
	}
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("new lock: %w", err)
	}
	name := "lock"
	if s, ok := reg.(fmt.Stringer); ok {
		name = "lock " + s.String()
	}
	return &Lock{
		reg: reg, cfg: cfg, name: name, dice: &dice{source: cfg.Rand},
		log: cfg.Logger.With("lock", name),
	}, nil
}

// view is the document at one version, and when that was so.
type view struct {
	doc     document
	bad     *CorruptError // the document cannot be read; raw is what is there
	newer   *NewerError   // a newer program wrote it
	deleted bool          // absent, behind a delete marker
	raw     []byte
	version string
	sample
	// before is the reading that a write was based on; nil for what was read.
	before *sample
	// remembered views were not read for the present call.
	remembered bool
}

// sample is one look at the server's clock, and when it was on ours.
type sample struct {
	now  time.Time
	sent Instant // before the request left
	came Instant // after its answer came
}

// free says that the lock can be had without judging anybody's time.
func (v view) free() bool { return len(v.doc.Holders) == 0 && len(v.doc.Waiters) == 0 }

func (l *Lock) remember(v view) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.known = v
	l.floor = max(l.floor, v.doc.LastToken)
}

// recall returns the last view, brought forward to a lower bound of the
// server's present time: the clock it read, plus what has passed here since
// on the monotonic clock, which may stop but does not run ahead. It serves to
// stamp this client's own grant and never to judge anybody else's.
func (l *Lock) recall() (view, bool) {
	l.mu.Lock()
	v := l.known
	l.mu.Unlock()
	if v.version == "" || v.bad != nil || v.newer != nil {
		return view{}, false
	}
	v.now = utc(v.now.Add(max(0, l.cfg.Clock.Read().Mono-v.came.Mono)))
	v.before, v.remembered = nil, true
	return v, true
}

func (l *Lock) view(r Reading, known view, sent Instant) (view, error) {
	if r.Now.IsZero() {
		return view{}, fmt.Errorf("%w: its answer carries no server time, without which no lease can be judged", ErrRefused)
	}
	read := sample{now: utc(r.Now), sent: sent, came: l.cfg.Clock.Read()}
	if r.Unchanged {
		v := known
		v.sample, v.before = read, nil
		return v, nil
	}
	v := view{version: r.Version, sample: read}
	if r.Version == "" {
		v.deleted = r.Deleted
		v.doc = newDocument(l.cfg.Limit, firstFloor(l.highest(), v.now))
		return v, nil
	}
	doc, err := decode(r.Value)
	if errors.As(err, &v.newer) {
		return v, nil
	}
	if err != nil {
		v.raw = r.Value
		v.bad = &CorruptError{Version: r.Version, Size: len(r.Value), Problem: err.Error()}
		return v, nil
	}
	v.doc = doc
	return v, nil
}

// highest is the floor under a document that has to be written anew: should
// somebody delete the lock's object, this client's tokens grow on.
func (l *Lock) highest() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.floor
}

// dice is the source of nonces and jitter.
type dice struct {
	mu     sync.Mutex
	source io.Reader
}

func (d *dice) read(b []byte) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	_, err := io.ReadFull(d.source, b)
	return err
}

func (d *dice) nonce() (string, error) {
	b := make([]byte, 16)
	if err := d.read(b); err != nil {
		return "", fmt.Errorf("draw a nonce: %w", err)
	}
	return hex.EncodeToString(b), nil
}

// between returns a duration in [low, high].
func (d *dice) between(low, high time.Duration) time.Duration {
	b := make([]byte, 8)
	if high <= low || d.read(b) != nil {
		return high
	}
	return low + time.Duration(binary.BigEndian.Uint64(b)%uint64(high-low+1))
}

// outlive returns a context that goes on for d after its parent has ended:
// cleanup is owed also by a call that was cancelled, but not for ever.
func outlive(parent context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(parent))
	expired := func() { cancel(fmt.Errorf("cleanup took longer than %v: %w", d, context.DeadlineExceeded)) }
	var mu sync.Mutex
	var timer *time.Timer
	stop := context.AfterFunc(parent, func() {
		mu.Lock()
		defer mu.Unlock()
		timer = time.AfterFunc(d, expired)
	})
	return ctx, func() {
		stop()
		mu.Lock()
		defer mu.Unlock()
		if timer != nil {
			timer.Stop()
		}
		cancel(context.Canceled)
	}
}
