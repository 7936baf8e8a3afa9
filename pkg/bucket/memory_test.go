package bucket_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-pipeline/lockstep/pkg/bucket"
	"github.com/lockstep-pipeline/lockstep/pkg/bucket/buckettest"
	"github.com/lockstep-pipeline/lockstep/pkg/bucket/s3test"
)

// Both over memory and over the wire: what S3 does not take fails, and is not
// mistaken for a missing object.
func TestKeysThatS3DoesNotTake(t *testing.T) {
	tests := []struct{ key, code string }{
		{"..", "InvalidURI"},
		{"../a", "InvalidURI"},
		{"a/../../b", "InvalidURI"},
		{"./../a", "InvalidURI"},
		{"a/../../b/c", "InvalidURI"},
		{"not UTF-8: \xff", "InvalidURI"},
		{strings.Repeat("k", 1025), "KeyTooLongError"},
		{strings.Repeat("é", 513), "KeyTooLongError"},
	}
	memory := bucket.NewMemory("files", nil)
	wire := bucketOf(t, s3test.New(t, bucket.NewMemory("files", nil)).Client(), bucket.Options{})
	for name, store := range map[string]buckettest.Store{"memory": memory, "wire": wire} {
		for _, test := range tests {
			t.Run(fmt.Sprintf("%s %.20q", name, test.key), func(t *testing.T) {
				_, putErr := store.Put(t.Context(), test.key, strings.NewReader(""), "", bucket.Condition{})
				_, getErr := store.Get(t.Context(), test.key, bucket.Condition{})
				for op, err := range map[string]error{"put": putErr, "get": getErr, "delete": store.Delete(t.Context(), test.key)} {
					var failed *bucket.CallError
					if !errors.As(err, &failed) || failed.Status != 400 || failed.Code != test.code {
						t.Errorf("%s: %v, want %s", op, err, test.code)
					}
					if errors.Is(err, bucket.ErrNotFound) || bucket.Transient(err) {
						t.Errorf("%s: %v passes for missing or transient", op, err)
					}
				}
			})
		}
	}
}

func TestFaultBeforeTheCallStandsInForIt(t *testing.T) {
	m := bucket.NewMemory("files", nil)
	boom := errors.New("boom")
	m.Fault(func(op, key string) error {
		if op == "put" && key == "a" {
			return boom
		}
		return nil
	}, nil)
	_, err := m.Put(t.Context(), "a", strings.NewReader("x"), "", bucket.Condition{})
	if !errors.Is(err, boom) || !bucket.Transient(err) {
		t.Errorf("put: %v, transient %t", err, bucket.Transient(err))
	}
	if _, err := m.Get(t.Context(), "a", bucket.Condition{}); !errors.Is(err, bucket.ErrNotFound) {
		t.Errorf("get: %v", err)
	}
	if _, err := m.Put(t.Context(), "b", strings.NewReader("x"), "", bucket.Condition{}); err != nil {
		t.Errorf("another key: %v", err)
	}
}

func TestFaultAfterTheCallIsALostReply(t *testing.T) {
	m := bucket.NewMemory("files", nil)
	m.Fault(nil, func(string, string) error { return errors.New("reset") })
	_, err := m.Put(t.Context(), "a", strings.NewReader("x"), "", bucket.Condition{IfNoneMatch: "*"})
	if err == nil || !bucket.Transient(err) {
		t.Errorf("put: %v", err)
	}
	m.Fault(nil, nil)
	if _, err := m.Get(t.Context(), "a", bucket.Condition{}); err != nil {
		t.Errorf("get: %v", err)
	}
}

func TestFaultMayBeAVerdict(t *testing.T) {
	m := bucket.NewMemory("files", nil)
	m.Fault(func(string, string) error { return bucket.ErrConflict }, nil)
	_, err := m.Put(t.Context(), "a", strings.NewReader("x"), "", bucket.Condition{IfNoneMatch: "*"})
	var failed *bucket.CallError
	if !errors.Is(err, bucket.ErrConflict) || !errors.As(err, &failed) || failed.Status != 409 {
		t.Errorf("got %v", err)
	}
}

func TestMemoryShowsAnObjectsClassAndTime(t *testing.T) {
	m := bucket.NewMemory("files", nil)
	if _, err := m.Put(t.Context(), "a", strings.NewReader("x"), "", bucket.Condition{}); err != nil {
		t.Fatal(err)
	}
	old := time.Date(2020, 1, 2, 3, 4, 5, 678e6, time.UTC)
	m.SetLastModified("a", old)
	m.SetStorageClass("a", "GLACIER")
	for page, err := range m.List(t.Context(), bucket.ListOptions{}) {
		if err != nil {
			t.Fatal(err)
		}
		if e := page.Entries[0]; !e.LastModified.Equal(old) || e.StorageClass != "GLACIER" {
			t.Errorf("listed %+v", e)
		}
	}
	var failed *bucket.CallError
	if _, err := m.Get(t.Context(), "a", bucket.Condition{}); !errors.As(err, &failed) || failed.Code != "InvalidObjectState" {
		t.Errorf("an archived object was read: %v", err)
	}
	defer func() {
		if recover() == nil {
			t.Error("an object that is not there was moved into a class")
		}
	}()
	m.SetStorageClass("b", "GLACIER")
}

// A listing sees what came and went between its pages, and stays in order.
func TestMemoryListsAsItIsNow(t *testing.T) {
	m := bucket.NewMemory("files", nil)
	for _, key := range []string{"a", "c", "e", "g"} {
		if _, err := m.Put(t.Context(), key, strings.NewReader(""), "", bucket.Condition{}); err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	for page, err := range m.List(t.Context(), bucket.ListOptions{PageSize: 2}) {
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range page.Entries {
			got = append(got, e.Key)
		}
		switch len(got) {
		case 2: // a, c
			if _, err := m.Put(t.Context(), "d", strings.NewReader(""), "", bucket.Condition{}); err != nil {
				t.Fatal(err)
			}
		case 4: // d, e
			if err := m.Delete(t.Context(), "g"); err != nil {
				t.Fatal(err)
			}
		}
	}
	if want := "acde"; strings.Join(got, "") != want {
		t.Errorf("listed %q, want %q", got, want)
	}
}

func BenchmarkMemoryList100k(b *testing.B) {
	m := bucket.NewMemory("files", nil)
	for i := range 100_000 {
		if _, err := m.Put(b.Context(), fmt.Sprint("p/", i), strings.NewReader(""), "", bucket.Condition{}); err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		for _, err := range m.List(b.Context(), bucket.ListOptions{}) {
			if err != nil {
				b.Fatal(err)
			}
		}
	}
}
