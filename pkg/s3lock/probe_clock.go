package s3lock

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockstep-pipeline/lockstep/pkg/bucket"
)

// This file asks whether the store's clock can be lived by. It needs no right
// clock of ours: it compares how far the two have gone, on our monotonic one.

// watched is a bucket whose every answer is asked for the time.
type watched struct {
	bucket   ProbeBucket
	began    time.Time
	requests atomic.Int64

	mu      sync.Mutex
	dates   int           // answers with a Date
	dumb    error         // an answer without
	first   time.Time     // the first Date
	firstAt time.Duration // when that came, since began
	lastAt  time.Duration // when the last request left that was given a Date
	newest  time.Time     // the greatest Date
	ahead   time.Duration // the most that a Date was ahead of first by more than its time of arrival
	lag     time.Duration // the most that a later Date fell behind an earlier one
	skew    time.Duration // of the last Date and our wall clock, as far as it is certain
}

// asked is when a request left, and what was known of the clock then.
type asked struct {
	at    time.Duration
	ahead time.Duration
	known bool
}

func (w *watched) ask() asked {
	w.requests.Add(1)
	w.mu.Lock()
	defer w.mu.Unlock()
	return asked{at: time.Since(w.began), ahead: w.ahead, known: w.dates > 0}
}

func (w *watched) answered(a asked, date time.Time, err error) {
	if err != nil {
		date, _ = bucket.ServerTime(err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if date.IsZero() {
		if mustTellTime(err) {
			w.dumb = err
		}
		return
	}
	received := time.Since(w.began)
	if w.dates++; w.dates == 1 {
		w.first, w.firstAt, w.ahead = date, received, -received
	}
	w.lastAt = max(w.lastAt, a.at)
	if date.After(w.newest) {
		w.newest = date
	}
	gone := date.Sub(w.first)
	// A Date is cut to the second, so the clock was at most one second further.
	if behind := a.ahead + a.at - gone - time.Second; a.known && behind > w.lag {
		w.lag = behind
	}
	w.ahead = max(w.ahead, gone-received)
	w.skew = 0
	if early := date.Sub(w.began.Add(received)); early > 0 {
		w.skew = early
	} else if late := w.began.Add(a.at).Sub(date.Add(time.Second)); late > 0 {
		w.skew = -late
	}
}

// mustTellTime reports an answer that a lease takes the time from.
func mustTellTime(err error) bool {
	var call *bucket.CallError
	if errors.Is(err, bucket.ErrNoServerTime) {
		return true
	}
	if !errors.As(err, &call) {
		return false
	}
	switch call.Status {
	case http.StatusNotModified, http.StatusNotFound, http.StatusPreconditionFailed:
		return true
	}
	return false
}

func (w *watched) Get(ctx context.Context, key string, c bucket.Condition) (*bucket.Object, error) {
	a := w.ask()
	object, err := w.bucket.Get(ctx, key, c)
	if err != nil {
		w.answered(a, time.Time{}, err)
		return nil, err
	}
	w.answered(a, object.ServerTime, nil)
	return object, nil
}

func (w *watched) Put(ctx context.Context, key string, body io.ReadSeeker, contentType string, c bucket.Condition) (bucket.Written, error) {
	a := w.ask()
	written, err := w.bucket.Put(ctx, key, body, contentType, c)
	w.answered(a, written.ServerTime, err)
	return written, err
}

func (w *watched) Delete(ctx context.Context, key string) error {
	w.requests.Add(1)
	return w.bucket.Delete(ctx, key)
}

func (w *watched) List(ctx context.Context, o bucket.ListOptions) iter.Seq2[bucket.Page, error] {
	return func(yield func(bucket.Page, error) bool) {
		a := w.ask()
		for page, err := range w.bucket.List(ctx, o) {
			w.answered(a, page.ServerTime, err)
			if !yield(page, err) || err != nil || page.Last {
				return
			}
			a = w.ask()
		}
	}
}

// lagAllowed is the least grace that a lease has by default. A clock that falls
// back by more, or stands still for that long, may end a lease under its holder
// or keep it for ever.
const lagAllowed = 2 * time.Second

func (p *probe) checkTime(ctx context.Context) Finding {
	w := p.store
	for {
		w.mu.Lock()
		dates, dumb, lag, skew := w.dates, w.dumb, w.lag, w.skew
		moved, watchedFor := w.newest.After(w.first), w.lastAt-w.firstAt
		w.mu.Unlock()
		switch {
		case dumb != nil:
			return refused(fmt.Sprintf("an answer has no Date header: %v", dumb),
				"leases are judged by that clock alone; a proxy that drops the header has to be told to keep it")
		case dates == 0:
			return Finding{Verdict: Unknown, Detail: "not tried: no answer came"}
		case lag > lagAllowed && !moved:
			return refused(fmt.Sprintf("Date stood still for %v", watchedFor.Round(time.Millisecond)),
				"answers come from a cache, or from a clock that has stopped; no lease would ever end")
		case lag > lagAllowed:
			return refused(fmt.Sprintf("Date went back by %v", lag.Round(time.Millisecond)),
				"answers come from machines whose clocks disagree, or from a cache; leases would end under their holders")
		case moved && lag > lagAllowed/4:
			return Finding{Verdict: Note, Detail: fmt.Sprintf("Date went back by %v", lag.Round(time.Millisecond)),
				Advice: "the store's machines disagree a little; a lease's grace of 2 s or more covers it"}
		case moved && (skew > skewWorthTelling || skew < -skewWorthTelling):
			return Finding{Verdict: Note, Detail: fmt.Sprintf("Date moves forward; it is %v from this machine's clock", skew.Round(time.Second)),
				Advice: "no lease depends on this machine's clock; set it right for the logs' sake"}
		case moved:
			return ok("every answer has a Date, and it moves forward")
		case ctx.Err() != nil:
			return Finding{Verdict: Unknown, Detail: "not tried: no time was left to see the clock move"}
		}
		select {
		case <-ctx.Done():
		case <-time.After(250 * time.Millisecond):
			_, _ = w.Get(ctx, p.missing(), bucket.Condition{}) // for its Date; any answer has one
		}
	}
}
