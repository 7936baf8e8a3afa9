package scale

import (
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/lockstep-pipeline/lockstep/pkg/bucket"
	"github.com/lockstep-pipeline/lockstep/pkg/ledger"
)

// A made-up source lists what a bucket that stores its keys would list, page by
// page, wherever a listing begins and ends.
func TestAMadeUpSourceListsLikeAStoredOne(t *testing.T) {
	f := newFiles(perDay + 1500)
	stored := bucket.NewMemory("stored", nil)
	for i := range f.count {
		if _, err := stored.Put(t.Context(), f.key(i), strings.NewReader(""), "", bucket.Condition{}); err != nil {
			t.Fatal(err)
		}
	}
	server := httptest.NewServer(&listings{})
	defer server.Close()
	made, err := open(server.URL, f.bucketOf(1000, 0, 0))
	if err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(1, 1))
	some := func() string { return f.key(f.count - 1 - random.IntN(2000)) }
	for _, o := range []bucket.ListOptions{
		{PageSize: 900}, {Prefix: "in", StartAfter: "in/zz", PageSize: 900},
		{Prefix: "incoming/2024/01/02/"}, {Prefix: "incoming/2024/01/02"}, {Prefix: "incoming/2024/01/02/events-00", PageSize: 100},
		{Prefix: "incoming/2024/01/02/", StartAfter: "incoming/2024/01/01/events-000000.csv.gz"},
		{Prefix: "incoming/2024/01/01/", StartAfter: "incoming/2024/01/02/"},
		{StartAfter: f.key(perDay - 1)}, {StartAfter: f.key(perDay - 501), PageSize: 500},
		{StartAfter: f.key(f.count - 2)}, {StartAfter: f.key(f.count - 1)}, {StartAfter: "zzz"},
		{Prefix: "absent"}, {Prefix: "zzz"}, {Prefix: f.key(7)}, {Prefix: f.key(7) + "x"},
		{StartAfter: some() + "\x00"}, {StartAfter: some()[:30]}, {StartAfter: some(), PageSize: 999}, {StartAfter: f.key(f.count - 1001), PageSize: 500},
	} {
		got, want := listedPages(t, made, o), listedPages(t, stored, o)
		if !slices.EqualFunc(got, want, slices.Equal) {
			t.Errorf("%+v: %d pages, %.3q; want %d pages, %.3q", o, len(got), got, len(want), want)
		}
	}
}

func listedPages(t *testing.T, b ledger.Lister, o bucket.ListOptions) (pages [][]string) {
	t.Helper()
	for page, err := range b.List(t.Context(), o) {
		if err != nil {
			t.Fatalf("%+v: %v", o, err)
		}
		var keys []string
		for _, e := range page.Entries {
			keys = append(keys, e.Key)
		}
		pages = append(pages, keys)
	}
	return pages
}

// A file is the same each time it is listed, and differs from the next.
func TestAMadeUpFileIsAlwaysTheSame(t *testing.T) {
	f := newFiles(perDay + 500)
	server := httptest.NewServer(&listings{})
	defer server.Close()
	made, err := open(server.URL, f.bucketOf(1000, 0, 0))
	if err != nil {
		t.Fatal(err)
	}
	tags := map[string]bool{}
	i := 0
	for page, err := range made.List(t.Context(), bucket.ListOptions{PageSize: 700}) {
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range page.Entries {
			row := f.done(i)
			day := firstDay.AddDate(0, 0, i/perDay)
			if e.Key != row.Key || e.ETag != row.ETag || e.Size != row.Size || len(e.ETag) != 34 || tags[e.ETag] ||
				e.LastModified.Before(day) || !e.LastModified.Before(day.AddDate(0, 0, 1)) {
				t.Fatalf("file %d is listed as %+v, want %+v", i, e, row)
			}
			tags[e.ETag] = true
			i++
		}
	}
	if i != f.count {
		t.Errorf("listed %d files of %d", i, f.count)
	}
}

// More requests at a time than the bucket's name allows are refused as S3 does.
func TestAMadeUpSourceRefusesWhatIsTooMuch(t *testing.T) {
	l := &listings{}
	name := newFiles(10).bucketOf(1000, 0, 1)
	ask := func() *httptest.ResponseRecorder {
		answer := httptest.NewRecorder()
		l.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/"+name+"?list-type=2", nil))
		return answer
	}
	l.bucket(name).enter() // somebody else's request
	if answer := ask(); answer.Code != http.StatusServiceUnavailable || !strings.Contains(answer.Body.String(), "<Code>SlowDown</Code>") {
		t.Errorf("a second request at a time: %d %s", answer.Code, answer.Body)
	}
	l.bucket(name).leave()
	if answer := ask(); answer.Code != http.StatusOK {
		t.Errorf("the only request: %d %s", answer.Code, answer.Body)
	}
	if seen := l.take()[name]; seen != (listingTally{Pages: 1, Keys: 10, SlowDowns: 1, AtOnce: 1}) {
		t.Errorf("counted %+v", seen)
	}
}
