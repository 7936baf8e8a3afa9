package soak

import (
	"cmp"
	"fmt"
	"slices"
)

// holds extracts from the records who held when, in the order of their
// beginnings, and what cannot be: a hold that never ended.
func (h history) holds() (all []hold, broken []string) {
	for _, l := range h.lives {
		var open *hold
		var since record
		for _, r := range l.records {
			switch r.Act {
			case asked:
				since = r
			case held:
				open = &hold{slot: l.slot, owner: r.Owner, token: r.Token, asked: since.At, from: r.At}
			case intent:
				open.increments = append(open.increments, increment{token: r.Token, read: r.Value})
			case done:
				open.increments[len(open.increments)-1].known = true
			case dropped:
				open.increments = open.increments[:len(open.increments)-1]
			case left:
				open.to, open.lost = r.At, r.Lost
				all = append(all, *open)
				open = nil
			}
		}
		switch {
		case open == nil:
		case l.killed.IsZero():
			broken = append(broken, fmt.Sprintf("%s ended while it held token %d", l.owner, open.token))
		default:
			open.to, open.killed = l.killed, true
			all = append(all, *open)
		}
	}
	slices.SortFunc(all, func(a, b hold) int { return a.from.Compare(b.from) })
	return all, broken
}

// verdict lists everything that a right lock cannot have caused.
func (h history) verdict() []string {
	all, broken := h.holds()
	broken = append(broken, twoHolders(all)...)
	broken = append(broken, shrunkTokens(all)...)
	broken = append(broken, lostCounts(all, h.counter)...)
	broken = append(broken, h.unfenced()...)
	return append(broken, h.unserved(all)...)
}

func twoHolders(all []hold) (broken []string) {
	for i := 1; i < len(all); i++ {
		if a, b := all[i-1], all[i]; b.from.Before(a.to) {
			broken = append(broken, fmt.Sprintf("two holders: %s held token %d for another %v when %s began to hold token %d",
				a.owner, a.token, a.to.Sub(b.from), b.owner, b.token))
		}
	}
	return broken
}

// shrunkTokens allows the same token twice in a row only to the same owner: one
// whose release failed may find its grant again.
func shrunkTokens(all []hold) (broken []string) {
	for i := 1; i < len(all); i++ {
		if a, b := all[i-1], all[i]; b.token <= a.token && (b.token < a.token || b.owner != a.owner) {
			broken = append(broken, fmt.Sprintf("tokens: %d of %s after %d of %s", b.token, b.owner, a.token, a.owner))
		}
	}
	return broken
}

// lostCounts follows the counter through all increments in the order of their
// tokens. An increment whose write was not confirmed leaves two possible
// values, between which the next reader decides.
func lostCounts(all []hold, last int64) (broken []string) {
	all = slices.Clone(all)
	slices.SortStableFunc(all, func(a, b hold) int { return cmp.Compare(a.token, b.token) })
	low, high := int64(0), int64(0)
	for _, held := range all {
		for _, i := range held.increments {
			if i.read < low || i.read > high {
				broken = append(broken, fmt.Sprintf("counter: token %d read %d where the increments before left %s", i.token, i.read, between(low, high)))
			}
			low, high = i.read, i.read+1
			if i.known {
				low = high
			}
		}
	}
	if last < low || last > high {
		broken = append(broken, fmt.Sprintf("counter: it ended at %d where the increments left %s", last, between(low, high)))
	}
	return broken
}

func between(low, high int64) string {
	if low == high {
		return fmt.Sprint(low)
	}
	return fmt.Sprintf("%d or %d", low, high)
}

// unfenced looks for tokens that the fenced resource should not have taken, or
// should have.
func (h history) unfenced() (broken []string) {
	for i := 1; i < len(h.stamps); i++ {
		if h.stamps[i] < h.stamps[i-1] {
			broken = append(broken, fmt.Sprintf("fence: token %d was taken after %d", h.stamps[i], h.stamps[i-1]))
		}
	}
	for _, l := range h.lives {
		for _, r := range l.records {
			if r.Act == refused {
				broken = append(broken, fmt.Sprintf("fence: token %d of %s was refused while it held", r.Token, r.Owner))
			}
		}
	}
	return broken
}

// unserved finds clients that waited in vain: a life that ended well without
// having got what it last asked for, and a client that never held at all.
func (h history) unserved(all []hold) (broken []string) {
	served := make([]bool, h.slots)
	for _, held := range all {
		served[held.slot] = true
	}
	for slot, ok := range served {
		if !ok {
			broken = append(broken, fmt.Sprintf("starved: client %d never held the lock", slot))
		}
	}
	for _, l := range h.lives {
		if last := l.last(); l.killed.IsZero() && last.Act == asked {
			broken = append(broken, fmt.Sprintf("starved: %s waited in vain from %s on", l.owner, last.At.Format("15:04:05.000")))
		}
	}
	return broken
}

// overtaken is the largest number of other grants that fell into one wait.
func overtaken(all []hold) int {
	worst := 0
	for i, h := range all {
		n := 0
		for j := i - 1; j >= 0 && all[j].from.After(h.asked); j-- {
			n++
		}
		worst = max(worst, n)
	}
	return worst
}
