package buckettest

import (
	"errors"
	"maps"
	"strings"
	"testing"

	"github.com/lockstep-pipeline/lockstep/pkg/bucket"
)

var metadata = []rule{
	{"HEAD says what GET does, without the content", func(t *testing.T, s Store) {
		written := put(t, s, "k", "content")
		object, err := s.Head(t.Context(), "k")
		if err != nil || object.ETag != written.ETag || object.Size != 7 || object.Body != nil || object.ServerTime.IsZero() || object.LastModified.IsZero() {
			t.Errorf("%+v, %v", object, err)
		}
	}},
	{"HEAD of what is not there is ErrNotFound", func(t *testing.T, s Store) {
		if _, err := s.Head(t.Context(), "missing"); !errors.Is(err, bucket.ErrNotFound) {
			t.Errorf("%v", err)
		}
	}},
	{"metadata comes back as it was", func(t *testing.T, s Store) {
		want := map[string]string{"lockstep-token": "1769850600123", "lockstep-etag": "%22abc-12%22", "a": "with a space, and = signs"}
		write(t, s, "k", "content", want, bucket.Condition{})
		wantMetadata(t, s, "k", want)
	}},
	{"metadata belongs to the version", func(t *testing.T, s Store) {
		write(t, s, "k", "one", map[string]string{"version": "1", "old": "yes"}, bucket.Condition{})
		object, _ := get(t, s, "k")
		write(t, s, "k", "two", map[string]string{"version": "2"}, bucket.Condition{IfMatch: object.ETag})
		wantMetadata(t, s, "k", map[string]string{"version": "2"})
		put(t, s, "k", "three")
		wantMetadata(t, s, "k", map[string]string{})
	}},
	{"a write that is refused leaves metadata alone", func(t *testing.T, s Store) {
		want := map[string]string{"version": "1"}
		write(t, s, "k", "one", want, bucket.Condition{})
		_, err := s.PutWith(t.Context(), "k", strings.NewReader("two"), bucket.PutOptions{
			Metadata: map[string]string{"version": "2"}, Condition: bucket.Condition{IfNoneMatch: "*"},
		})
		if !errors.Is(err, bucket.ErrPrecondition) {
			t.Errorf("%v", err)
		}
		wantMetadata(t, s, "k", want)
	}},
	{"metadata that would not come back is refused", func(t *testing.T, s Store) {
		for name, value := range map[string]string{"Upper": "x", "under_score": "x", "": "x", "umlaut": "ä", "newline": "a\nb", "space": " x", "large": strings.Repeat("x", 2100)} {
			_, err := s.PutWith(t.Context(), "k", strings.NewReader("x"), bucket.PutOptions{Metadata: map[string]string{name: value}})
			if err == nil {
				t.Errorf("%q: %.20q was taken", name, value)
			}
		}
		if _, err := s.Head(t.Context(), "k"); !errors.Is(err, bucket.ErrNotFound) {
			t.Errorf("something was written: %v", err)
		}
	}},
}

func write(t *testing.T, s Store, key, content string, metadata map[string]string, c bucket.Condition) {
	t.Helper()
	_, err := s.PutWith(t.Context(), key, strings.NewReader(content), bucket.PutOptions{ContentType: "text/plain", Metadata: metadata, Condition: c})
	if err != nil {
		t.Fatalf("put %q: %v", key, err)
	}
}

func wantMetadata(t *testing.T, s Store, key string, want map[string]string) {
	t.Helper()
	head, err := s.Head(t.Context(), key)
	if err != nil {
		t.Fatalf("head %q: %v", key, err)
	}
	object, _ := get(t, s, key)
	for way, got := range map[string]map[string]string{"HEAD": head.Metadata, "GET": object.Metadata} {
		if !maps.Equal(got, want) {
			t.Errorf("%s of %q: metadata %v, want %v", way, key, got, want)
		}
	}
}
