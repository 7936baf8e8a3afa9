package s3lock

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/lockstep-pipeline/lockstep/pkg/bucket"
)

// This file asks whether the store enforces its conditions when many clients
// ask at once. Statuses alone do not tell: a store may refuse a write and keep
// it, or accept one and lose it. So what the object holds is compared with
// what each rival was told, after each round and again after all.

// checkCreates races for objects that do not exist.
func (p *probe) checkCreates(ctx context.Context) Finding {
	p.races = map[int]version{}
	return p.rounds(ctx, "create one object", func(round int) bucket.Condition { return create })
}

// checkSwaps races to replace what the creates left.
func (p *probe) checkSwaps(ctx context.Context) Finding {
	if len(p.races) < p.config.Rounds {
		return Finding{Verdict: Unknown, Detail: "not tried: the race of creates left nothing certain to replace"}
	}
	return p.rounds(ctx, "replace one version", func(round int) bucket.Condition {
		return bucket.Condition{IfMatch: p.races[round].ETag}
	})
}

func (p *probe) raceKey(round int) string { return fmt.Sprintf("%srace-%04d", p.folder, round) }

// rounds runs all rounds of a race, each over an object of its own.
func (p *probe) rounds(ctx context.Context, what string, condition func(round int) bucket.Condition) Finding {
	var seen tally
	for round := range p.config.Rounds {
		winner, problem, err := p.settle(ctx, p.raceKey(round), p.races[round], condition(round), &seen)
		switch {
		case problem != "":
			delete(p.races, round)
			return refused(fmt.Sprintf("round %d of %d, %d rivals to %s: %s", round+1, p.config.Rounds, p.config.Rivals, what, problem),
				"the store checks the condition and writes in two steps that others get between: two clients could hold one lock")
		case err != nil:
			delete(p.races, round)
			f := p.trouble("put", err)
			f.Detail = fmt.Sprintf("round %d of %d, %d rivals to %s: %s (%v)", round+1, p.config.Rounds, p.config.Rivals, what, f.Detail, seen)
			return f
		}
		p.races[round] = winner
	}
	for round := range p.config.Rounds {
		now, err := p.read(ctx, p.raceKey(round), bucket.Condition{})
		switch {
		case err != nil:
			return p.trouble("get", err)
		case now.content != p.races[round].content:
			return refused(fmt.Sprintf("round %d of %d, %d rivals to %s: the winner's write was there, and is lost now", round+1, p.config.Rounds, p.config.Rivals, what),
				"the store lets a write that it refused, or did not answer, take effect later")
		}
	}
	return ok(fmt.Sprintf("%d × %d rivals to %s: one winner each (%v)", p.config.Rounds, p.config.Rivals, what, seen))
}

var errNobodyWon = errors.New("in three attempts nobody won")

// settle races until somebody has won. A store may turn all rivals away with
// 409, which is no fault unless it goes on for ever.
func (p *probe) settle(ctx context.Context, key string, before version, c bucket.Condition, seen *tally) (version, string, error) {
	p.remember(key)
	var rivals []rival // of all attempts: a late write of an earlier one may land in this
	for range 3 {
		racing := p.race(ctx, key, c)
		rivals = append(rivals, racing...)
		for _, r := range racing {
			seen.add(r.err)
			if r.err != nil && !turnedAway(r.err) && !passing(r.err) {
				return version{}, "", r.err
			}
		}
		now, err := p.read(ctx, key, bucket.Condition{})
		if err != nil && !errors.Is(err, bucket.ErrNotFound) {
			return version{}, "", err
		}
		problem := judge(rivals, before, now)
		if problem != "" || now.content != before.content {
			return now, problem, nil
		}
	}
	return version{}, "", errNobodyWon
}

// A rival is one writer in a race, and what it was told.
type rival struct {
	version
	err error
}

// race lets all rivals write at once.
func (p *probe) race(ctx context.Context, key string, c bucket.Condition) []rival {
	rivals := make([]rival, p.config.Rivals)
	start := make(chan struct{})
	var group sync.WaitGroup
	for i := range rivals {
		r := &rivals[i]
		r.content = p.body()
		group.Go(func() {
			<-start
			once, cancel := context.WithTimeout(ctx, callTime)
			defer cancel()
			r.Written, r.err = p.put(once, key, r.content, c)
		})
	}
	close(start)
	group.Wait()
	return rivals
}

// judge compares what the rivals were told with what the object holds now, and
// returns what cannot be; before is what it held, the zero version if nothing.
func judge(rivals []rival, before, now version) string {
	winners, owner := []rival{}, -1
	for i, r := range rivals {
		if r.err == nil {
			winners = append(winners, r)
		}
		if r.content == now.content {
			owner = i
		}
	}
	changed := now.content != before.content
	switch {
	case len(winners) > 1:
		return fmt.Sprintf("%d of them were told that they had won", len(winners))
	case changed && owner < 0:
		return "the object holds what none of them wrote"
	case changed && turnedAway(rivals[owner].err):
		return "the object holds the write of one that was told it had lost"
	case len(winners) == 1 && !changed:
		return "one was told that it had won, and its write is not there"
	case len(winners) == 1 && now.content != winners[0].content:
		return "one was told that it had won, and the object holds the write of another, that got no answer"
	case len(winners) == 1 && now.ETag != winners[0].ETag:
		return fmt.Sprintf("the winner was told the ETag %s, and the object has %s", winners[0].ETag, now.ETag)
	}
	return ""
}

// turnedAway reports an answer that promises that nothing was written.
func turnedAway(err error) bool { return certain(err) || errors.Is(err, bucket.ErrConflict) }

// tally counts what rivals were told.
type tally struct{ won, lost, conflict, unclear int }

func (t *tally) add(err error) {
	switch {
	case err == nil:
		t.won++
	case errors.Is(err, bucket.ErrConflict):
		t.conflict++
	case certain(err):
		t.lost++
	default:
		t.unclear++
	}
}

func (t tally) String() string {
	s := fmt.Sprintf("%d won, %d met 412", t.won, t.lost)
	if t.conflict > 0 {
		s += fmt.Sprintf(", %d met 409", t.conflict)
	}
	if t.unclear > 0 {
		s += fmt.Sprintf(", %d got no clear answer", t.unclear)
	}
	return s
}
