package lease

import (
	"fmt"
	"time"
)

// Holder is one owner of the lock, as others see it. All times are the
// server's.
type Holder struct {
	Owner    string    `json:"owner"`
	Token    int64     `json:"token"`
	Acquired time.Time `json:"acquired"`
	Renewed  time.Time `json:"renewed"`
	Expires  time.Time `json:"expires"` // when others may take over
	// Expired: the time is over, and nobody has taken over yet.
	Expired bool `json:"expired,omitempty"`
	// Stopped: its owner has ended; it is not renewed, and ends by itself.
	Stopped bool `json:"stopped,omitempty"`
}

// Waiter is one place in the queue.
type Waiter struct {
	Owner    string    `json:"owner"`
	Priority int       `json:"priority"`
	Arrived  time.Time `json:"arrived"`
	Seen     time.Time `json:"seen"` // may lag behind by a third of the allowed silence
	// Silent: it stopped asking and blocks nobody any more.
	Silent bool `json:"silent,omitempty"`
}

// Answer is the outcome of one Ask.
type Answer struct {
	Decision Decision
	Grant    Grant // when Held
	// Fresh: the asker has the grant, or its place in the queue, by this turn. It
	// is false for one that asks again.
	Fresh bool
	// TookFrom are the holders whose time was over and whose part of the lock this
	// turn freed. Each of them is in one answer only, whoever gets the lock then.
	TookFrom []Holder
	Holders  []Holder // who has the lock, the asker included
	Waiters  int      // how many queue
	Hold     *Hold    // nobody gets the lock for now; nil as a rule
	Position int      // when Wait: 1 is next
	// Waiting is how long the asker has been queued, by the server's clock; with a
	// fresh grant, how long it was.
	Waiting time.Duration
	// RetryAfter is when to ask again, in whole seconds: Poll, or sooner when
	// the asker is next and the holder's time ends before that.
	RetryAfter time.Duration
	Now        time.Time // the server's clock
}

// Grant is the right to act under a token until a deadline. It is a value;
// what is marshalled of it does not carry the deadline, which is this
// process's own: another process calls Lock.Resume.
type Grant struct {
	Owner    string    `json:"owner"`
	Token    int64     `json:"token"`
	Acquired time.Time `json:"acquired"`
	Renewed  time.Time `json:"renewed"`
	Expires  time.Time `json:"expires"` // when others may take over

	ttl   time.Duration
	local deadline
}

// Remaining is how long this process may still act on the grant; zero or less
// means stop. It looks at both of the machine's clocks.
func (g Grant) Remaining() time.Duration { return g.local.remaining() }

// Check returns nil while the grant may be acted on, else ErrLost. Call it
// before each effect that must not happen twice.
func (g Grant) Check() error {
	if g.local.clock == nil {
		return fmt.Errorf("%w: this grant of token %d comes from another process; resume it first", ErrLost, g.Token)
	}
	if left := g.Remaining(); left <= 0 {
		return fmt.Errorf("%w: token %d was not renewed in time, its deadline passed %v ago", ErrLost, g.Token, -left)
	}
	return nil
}

// grant turns what the document says into what this process may do. It counts
// from before the request left that told the server's time.
func (l *Lock) grant(h holder, v view) Grant {
	local := l.deadline(h, v.sample)
	// A write that was slow to arrive is not charged twice: the read before it
	// proves as much.
	if v.before != nil {
		if earlier := l.deadline(h, *v.before); earlier.remaining() > local.remaining() {
			local = earlier
		}
	}
	return Grant{
		Owner: h.Owner, Token: h.Token, Acquired: h.Acquired, Renewed: h.Renewed, Expires: h.expires(),
		ttl: h.TTL.duration(), local: local,
	}
}

// deadline draws the line at renewed + TTL. Before the request left, the
// server's clock showed no more than the answer does; the resolution of that
// clock comes out of the grace.
func (l *Lock) deadline(h holder, s sample) deadline {
	span := min(h.Renewed.Add(h.TTL.duration()).Sub(s.now), h.TTL.duration())
	return deadline{clock: l.cfg.Clock, from: s.sent, span: span}
}

func (d document) holders(now time.Time) []Holder { return shown(d.Holders, now) }

func shown(all []holder, now time.Time) []Holder {
	holders := make([]Holder, 0, len(all))
	for _, h := range all {
		holders = append(holders, Holder{
			Owner: h.Owner, Token: h.Token, Acquired: h.Acquired, Renewed: h.Renewed,
			Expires: h.expires(), Expired: h.expired(now), Stopped: h.Stopped,
		})
	}
	return holders
}

func (d document) waiters(now time.Time) []Waiter {
	waiters := make([]Waiter, 0, len(d.Waiters))
	for _, w := range d.Waiters {
		waiters = append(waiters, Waiter{
			Owner: w.Owner, Priority: w.Priority, Arrived: w.Arrived, Seen: w.Seen, Silent: w.silent(now),
		})
	}
	return waiters
}
