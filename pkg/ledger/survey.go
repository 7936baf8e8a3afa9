package ledger

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// A survey lists a prefix in spans, several at a time, and joins each with the
// ledger's rows of the same span.
//
// Where the ledger is large, its own keys give the first spans: about equally
// many rows each. Whoever has nothing left to list then takes over the second
// half of a span that another is still at: up to the middle of the ledger's
// keys in it or, where it knows none, up to the middle of the strings in it. A
// half that turns out to be empty has cost one request and made the other half
// smaller, so that a few such steps find where the keys are.
//
// A span's end only ever moves down, and only beyond the page that was read
// last, so each key is listed in exactly one span.
type survey struct {
	ledger *Ledger
	selector
	head    Head
	src     Lister
	cutoff  time.Time
	indexes *indexes
	found   func(context.Context, due) error
	skipped func(Verdict) error // may be nil; then it is called in key order
	workers int

	pace     *pace
	alphabet alphabet
	blocks   []string // first keys of the ledger's blocks within the prefix

	mu     sync.Mutex
	change *sync.Cond
	queue  []span
	claims []*claim
	ended  bool
}

// run lists what lies beyond after. The results come in key order.
func (s *survey) run(ctx context.Context, after string) ([]joined, error) {
	s.pace = newPace(s.workers)
	s.change = sync.NewCond(&s.mu)
	if err := s.plan(ctx, after); err != nil {
		return nil, err
	}
	var results []joined
	work, ctx := errgroup.WithContext(ctx)
	stop := context.AfterFunc(ctx, func() { // somebody failed: nothing is claimed any more
		s.mu.Lock()
		defer s.mu.Unlock()
		s.ended = true
		s.change.Broadcast()
	})
	defer stop()
	for range s.workers {
		work.Go(func() error {
			for c := s.claim(); c != nil; c = s.claim() {
				result, err := s.join(ctx, c)
				if err != nil {
					return err
				}
				s.done(c, func() { results = append(results, result) })
			}
			return nil
		})
	}
	err := work.Wait()
	slices.SortFunc(results, func(a, b joined) int { return strings.Compare(a.after, b.after) })
	return results, err
}

// plan makes the first spans.
func (s *survey) plan(ctx context.Context, after string) error {
	s.queue = []span{{after: after}}
	segments := s.within(after)
	s.indexes = s.ledger.newIndexes(s.workers * len(segments))
	var rows int64
	for _, segment := range segments {
		rows += segment.Rows
	}
	// More spans would even out better, but each begins and ends within a block
	// of every segment, and who is done takes over from others anyway.
	spans := int(min(rows/s.ledger.limits.spanRows, int64(2*s.workers)))
	if spans < 2 {
		return nil
	}
	if err := s.readBlocks(ctx, segments, after); err != nil {
		return err
	}
	s.queue = s.queue[:0]
	spans = min(spans, len(s.blocks))
	for i := 1; i < spans; i++ {
		cut := s.blocks[i*len(s.blocks)/spans]
		if cut > after {
			s.queue = append(s.queue, span{after: after, upTo: cut})
			after = cut
		}
	}
	s.queue = append(s.queue, span{after: after})
	return nil
}

// within returns the segments that may have keys of the prefix beyond after.
func (s *survey) within(after string) []Segment {
	return slices.DeleteFunc(slices.Clone(s.head.Segments), func(segment Segment) bool {
		return segment.Last < s.prefix || segment.Last <= after ||
			segment.First > s.prefix && !strings.HasPrefix(segment.First, s.prefix)
	})
}

// readBlocks reads the indexes of the segments. Blocks have about equally many
// rows, so that their first keys say where the ledger's rows are.
func (s *survey) readBlocks(ctx context.Context, segments []Segment, after string) error {
	read := make([][]string, len(segments))
	work, ctx := errgroup.WithContext(ctx)
	work.SetLimit(s.workers)
	for i, segment := range segments {
		work.Go(func() error {
			index, err := s.indexes.of(ctx, segment)
			if err != nil {
				return err
			}
			for _, b := range index.blocks {
				if b.first > after && strings.HasPrefix(b.first, s.prefix) {
					read[i] = append(read[i], b.first)
				}
			}
			return nil
		})
	}
	if err := work.Wait(); err != nil {
		return err
	}
	s.blocks = slices.Concat(read...)
	slices.Sort(s.blocks)
	return nil
}

// claim returns the next span to list, waiting for one to come, or nil when
// there is none and none can come.
func (s *survey) claim() *claim {
	s.mu.Lock()
	defer s.mu.Unlock()
	for !s.ended {
		next, ok := s.next()
		if ok {
			c := &claim{span: next}
			s.claims = append(s.claims, c)
			return c
		}
		if len(s.claims) == 0 {
			return nil
		}
		s.change.Wait()
	}
	return nil
}

// next takes a span from the queue, or half of one that is being listed. The
// caller holds mu.
func (s *survey) next() (span, bool) {
	if len(s.queue) > 0 {
		next := s.queue[0]
		s.queue = s.queue[1:]
		return next, true
	}
	for c := s.longest(); c != nil; c = s.longest() {
		c.tried = c.pages
		if cut, ok := s.cut(c); ok {
			half := span{after: cut, upTo: c.upTo}
			c.upTo = cut
			return half, true
		}
	}
	return span{}, false
}

// longest is the claim that seems to have most before it, of those that are
// worth another try: by what the ledger knows, four pages a block, and as many
// pages again as it had so far. It is asked for with every page that comes
// while somebody has nothing to do.
func (s *survey) longest() *claim {
	var longest *claim
	most := -1
	for _, c := range s.claims {
		if c.closed || c.pages < c.tried+s.ledger.limits.splitAfter {
			continue
		}
		from, to := s.known(c)
		short := to-from < 2 && c.pages < s.ledger.limits.splitFrom
		if left := c.pages + 4*(to-from); !short && left > most {
			longest, most = c, left
		}
	}
	return longest
}

// known are the blocks that begin in what a claim has before it.
func (s *survey) known(c *claim) (from, to int) {
	beyond := func(key string) int {
		at, here := slices.BinarySearch(s.blocks, key)
		for here && at < len(s.blocks) && s.blocks[at] == key {
			at++
		}
		return at
	}
	from, to = beyond(c.at), len(s.blocks)
	if c.upTo != "" {
		to, _ = slices.BinarySearch(s.blocks, c.upTo)
	}
	return from, max(from, to)
}

// cut is where to divide what a claim has before it.
func (s *survey) cut(c *claim) (string, bool) {
	if from, to := s.known(c); to-from >= 2 {
		return s.blocks[(from+to)/2], true
	}
	return s.alphabet.between(c.at, c.upTo, s.prefix)
}

// claim is a span in somebody's hands. Its fields are guarded by survey.mu.
type claim struct {
	span
	at     string // the last key that was listed
	pages  int
	tried  int // pages when it was last tried to split it
	closed bool
}

// reached tells that a page came, whose last key is at, and returns where the
// span ends now: somebody may have taken over what lies beyond. Beyond the last
// page there is nothing to take over.
func (s *survey) reached(c *claim, at string, last bool) (upTo string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c.at = max(c.at, at)
	c.pages++
	c.closed = last
	s.change.Broadcast()
	return c.upTo
}

// close fixes the end of a span that was listed to its end.
func (s *survey) close(c *claim) span {
	s.mu.Lock()
	defer s.mu.Unlock()
	c.closed = true
	return c.span
}

func (s *survey) done(c *claim, keep func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	keep()
	s.claims = slices.DeleteFunc(s.claims, func(other *claim) bool { return other == c })
	s.change.Broadcast()
}
