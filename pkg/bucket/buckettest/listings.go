package buckettest

import (
	"fmt"
	"slices"
	"testing"

	"github.com/lockstep-pipeline/lockstep/pkg/bucket"
)

var listings = []rule{
	{"an empty listing is one last page", func(t *testing.T, s Store) {
		if pages := list(t, s, bucket.ListOptions{Prefix: "none/"}); len(pages) != 1 || len(pages[0].Entries) != 0 {
			t.Errorf("got %+v", pages)
		}
	}},
	{"keys come in the order of their bytes", func(t *testing.T, s Store) {
		// UTF-16 would put the emoji before U+FFFD, and a directory tree "a/b" before "a.b".
		want := []string{"A", "a", "a-", "a.b", "a/b", "a0", "é", "\ufffd", "😀"}
		for _, key := range []string{"😀", "a/b", "\ufffd", "A", "a0", "é", "a.b", "a", "a-"} {
			put(t, s, key, "")
		}
		if got := keysOf(list(t, s, bucket.ListOptions{})...); !slices.Equal(got, want) {
			t.Errorf("got %q", got)
		}
	}},
	{"a prefix is text, not a folder", func(t *testing.T, s Store) {
		for _, key := range []string{"file", "files", "files/a", "files/b/c", "files2/a", "gone"} {
			put(t, s, key, "")
		}
		for prefix, want := range map[string][]string{
			"files":  {"files", "files/a", "files/b/c", "files2/a"},
			"files/": {"files/a", "files/b/c"},
		} {
			if got := keysOf(list(t, s, bucket.ListOptions{Prefix: prefix})...); !slices.Equal(got, want) {
				t.Errorf("below %q: %q", prefix, got)
			}
		}
	}},
	{"pages join without gap or overlap", func(t *testing.T, s Store) {
		var want []string
		for i := range 12 {
			want = append(want, fmt.Sprintf("p/%02d", i))
			put(t, s, want[i], "")
		}
		put(t, s, "o", "")
		put(t, s, "q", "")
		for _, size := range []int32{1, 3, 5, 12, 13} {
			pages := list(t, s, bucket.ListOptions{Prefix: "p/", PageSize: size})
			if got := keysOf(pages...); !slices.Equal(got, want) {
				t.Errorf("pages of %d: %q", size, got)
			}
			if most := slices.MaxFunc(pages, byLength); len(most.Entries) > int(size) {
				t.Errorf("pages of %d: one has %d", size, len(most.Entries))
			}
		}
		after := bucket.ListOptions{Prefix: "p/", StartAfter: "p/04", PageSize: 3}
		if got := keysOf(list(t, s, after)...); !slices.Equal(got, want[5:]) {
			t.Errorf("after p/04: %q", got)
		}
		if got := keysOf(list(t, s, bucket.ListOptions{Prefix: "p/", StartAfter: "p/045"})...); !slices.Equal(got, want[5:]) {
			t.Errorf("after a key that is not there: %q", got)
		}
	}},
	{"a reader may stop early", func(t *testing.T, s Store) {
		put(t, s, "a", "")
		put(t, s, "b", "")
		for page, err := range s.List(t.Context(), bucket.ListOptions{PageSize: 1}) {
			if err != nil || page.Last {
				t.Errorf("page %+v, error %v", page, err)
			}
			break
		}
	}},
}

func byLength(a, b bucket.Page) int { return len(a.Entries) - len(b.Entries) }
