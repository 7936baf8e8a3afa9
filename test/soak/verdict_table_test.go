package soak

import (
	"strings"
	"testing"
	"time"
)

// told is a life, briefly.
type told struct {
	slot   int
	owner  string
	killed int // second of the SIGKILL
	acts   []record
}

func at(second int, a act, token, value int64) record {
	return record{Act: a, Token: token, Value: value, At: time.Unix(int64(second), 0)}
}

func tell(counter int64, stamps []int64, lives ...told) history {
	h := history{counter: counter, stamps: stamps, slots: 2}
	for _, t := range lives {
		l := &life{slot: t.slot, owner: t.owner}
		for _, r := range t.acts {
			r.Owner = t.owner
			l.records = append(l.records, r)
		}
		if t.killed > 0 {
			l.killed = time.Unix(int64(t.killed), 0)
		}
		h.lives = append(h.lives, l)
	}
	return h
}

// whole is a hold that increments the counter from value once.
func whole(from, to int, token, value int64) []record {
	return []record{
		at(from-1, asked, 0, 0), at(from, held, token, 0), at(from, intent, token, value), at(from, done, token, 0),
		at(to, left, token, 0), at(to, released, token, 0),
	}
}

// A verdict that cannot fail would make the soak worthless.
func TestVerdict(t *testing.T) {
	first := told{0, "a", 0, whole(1, 3, 1, 0)}
	for _, c := range []struct {
		name string
		h    history
		says string // "" means nothing is wrong
	}{
		{"one after the other", tell(2, []int64{1, 2}, first, told{1, "b", 0, whole(3, 4, 2, 1)}), ""},
		{"two at a time", tell(2, nil, first, told{1, "b", 0, whole(2, 4, 2, 1)}), "two holders"},
		{"a token twice", tell(2, nil, first, told{1, "b", 0, whole(3, 4, 1, 1)}), "tokens"},
		{"a token that shrank", tell(2, nil, told{0, "a", 0, whole(1, 3, 2, 0)}, told{1, "b", 0, whole(3, 4, 1, 1)}), "tokens"},
		{"a lost count", tell(1, nil, first, told{1, "b", 0, whole(3, 4, 2, 0)}), "counter"},
		{"a count too many", tell(3, nil, first, told{1, "b", 0, whole(3, 4, 2, 1)}), "ended at 3"},
		{"killed while it wrote, and it landed", tell(2, nil,
			told{0, "a", 2, []record{at(1, held, 1, 0), at(1, intent, 1, 0)}}, told{1, "b", 0, whole(8, 9, 2, 1)}), ""},
		{"killed while it wrote, and it did not", tell(1, nil,
			told{0, "a", 2, []record{at(1, held, 1, 0), at(1, intent, 1, 0)}}, told{1, "b", 0, whole(8, 9, 2, 0)}), ""},
		{"killed while it held, and taken over too early", tell(1, nil,
			told{0, "a", 5, []record{at(1, held, 1, 0)}}, told{1, "b", 0, whole(4, 9, 2, 0)}), "two holders"},
		{"lost in time, so it did not write", tell(1, nil,
			told{0, "a", 0, []record{at(1, held, 1, 0), at(1, intent, 1, 0), at(2, dropped, 1, 0), at(2, left, 1, 0)}},
			told{1, "b", 0, whole(8, 9, 2, 0)}), ""},
		{"the fence let an old token in", tell(2, []int64{2, 1}, first, told{1, "b", 0, whole(3, 4, 2, 1)}), "fence"},
		{"the fence refused a holder", tell(1, []int64{2}, told{1, "b", 0, whole(3, 4, 2, 0)},
			told{0, "a", 0, []record{at(5, held, 3, 0), at(5, refused, 3, 0), at(6, left, 3, 0)}}), "was refused"},
		{"never served", tell(1, nil, first), "client 1 never"},
		{"waited in vain", tell(1, nil, first, told{1, "b", 9, whole(3, 4, 2, 1)}, told{1, "c", 0, []record{at(9, asked, 0, 0)}}), "in vain"},
		{"killed while it waited", tell(2, nil, first, told{1, "b", 9, append(whole(3, 4, 2, 1), at(5, asked, 0, 0))}), ""},
		{"ended without leaving", tell(2, nil, first, told{1, "b", 0, whole(3, 4, 2, 1)[:4]}), "ended while it held"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := strings.Join(c.h.verdict(), "\n")
			if c.says == "" && got != "" || !strings.Contains(got, c.says) {
				t.Errorf("verdict %q, want %q", got, c.says)
			}
		})
	}
}
