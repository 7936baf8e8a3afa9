package buckettest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/lockstep-pipeline/lockstep/pkg/bucket"
)

// hostileKeys are names that people give to objects and that some layer on the
// way is tempted to clean, to decode twice or to cut.
var hostileKeys = []string{
	"#", "a#b", "?", "a?b=c&d", "%", "100%", "%2F", "a%2Fb", "%zz", "%25", "+", "a+b", " ", "a b", " a ", "a%20b",
	"new\nline", "carriage\rreturn", "both\r\n", "tab\t", "\x01", "bell\a", "escape\x1b[31m", "\x1f", "DEL\x7f",
	"emoji-😀.csv", "é", "e\u0301", "日本語", "\u2028", "\ufeffbom", "\ufffd", "\U0010ffff",
	"//", "a//b", "a//", "/leading", "//leading", "trailing/", "/",
	".", "./", "./a", "a/.", "a/./b", "a.", "a..", "..a", "a/..", "a/../b", "a/b/../../c", "...",
	`\`, `a\b`, `<>&"'`, "<Key>", "&amp;", "]]>", "a;b=c", "a,b", ":", "a:b", "@", "=", "~", "|", "^", "`", "{}", "[]", "*", "!$'()",
	"soap.csv", "list-type=2", strings.Repeat("k", 1024), strings.Repeat("é", 512),
}

var keys = []rule{
	{"a hostile key makes the round trip", func(t *testing.T, s Store) {
		for _, key := range hostileKeys {
			t.Run(fmt.Sprintf("%.20q", key), func(t *testing.T) { roundTrip(t, s, key) })
		}
	}},
	{"hostile keys live side by side", func(t *testing.T, s Store) {
		want := slices.Sorted(slices.Values(hostileKeys))
		for _, key := range want {
			put(t, s, key, "content of "+key)
		}
		if got := keysOf(list(t, s, bucket.ListOptions{PageSize: 7})...); !slices.Equal(got, want) {
			t.Fatalf("listed %q, want %q", got, want)
		}
		var kept []string
		for i, key := range want {
			if _, content := get(t, s, key); content != "content of "+key {
				t.Errorf("%q holds %q", key, content)
			}
			next := slices.Concat(want[i+1:], []string{"none"})[0]
			for page, err := range s.List(t.Context(), bucket.ListOptions{StartAfter: key, PageSize: 1}) {
				if got := append(keysOf(page), "none")[0]; got != next || err != nil {
					t.Errorf("after %q came %q, %v, want %q", key, got, err, next)
				}
				break
			}
			if i%2 == 0 {
				kept = append(kept, key)
			}
		}
		for i, key := range want {
			if i%2 == 0 {
				continue
			}
			if err := s.Delete(t.Context(), key); err != nil {
				t.Errorf("delete %q: %v", key, err)
			}
		}
		if got := keysOf(list(t, s, bucket.ListOptions{})...); !slices.Equal(got, kept) {
			t.Errorf("kept %q, want %q", got, kept)
		}
	}},
	{"an empty key is refused", func(t *testing.T, s Store) {
		_, getErr := s.Get(t.Context(), "", bucket.Condition{})
		_, putErr := swap(t, s, "", "content", bucket.Condition{})
		for op, err := range map[string]error{"get": getErr, "put": putErr, "delete": s.Delete(t.Context(), "")} {
			if err == nil || errors.Is(err, bucket.ErrNotFound) || bucket.Transient(err) {
				t.Errorf("%s: %v", op, err)
			}
		}
	}},
}

// roundTrip creates, reads, lists and deletes key.
func roundTrip(t *testing.T, s Store, key string) {
	create := bucket.Condition{IfNoneMatch: "*"}
	if _, err := swap(t, s, key, "content of "+key, create); err != nil {
		t.Fatalf("create %q: %v", key, err)
	}
	if _, err := swap(t, s, key, "other", create); !errors.Is(err, bucket.ErrPrecondition) {
		t.Errorf("create %q again: %v", key, err)
	}
	holds(t, s, key, "content of "+key)
	if listed := keysOf(list(t, s, bucket.ListOptions{Prefix: key})...); !slices.Equal(listed, []string{key}) {
		t.Errorf("below the prefix %q: %q", key, listed)
	}
	if err := s.Delete(t.Context(), key); err != nil {
		t.Errorf("delete %q: %v", key, err)
	}
	if _, err := s.Get(t.Context(), key, bucket.Condition{}); !errors.Is(err, bucket.ErrNotFound) {
		t.Errorf("get %q after its deletion: %v", key, err)
	}
}
