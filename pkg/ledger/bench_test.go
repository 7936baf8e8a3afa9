//go:build unix

package ledger

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/lockstep-pipeline/lockstep/pkg/bucket"
)

const (
	benchFiles = 1_000_000
	benchNew   = 1_000 // of them, spread over the keys, are not in the ledger
)

func benchKey(i int) string {
	return fmt.Sprintf("incoming/2026/%02d/%02d/events-%06d.csv.gz", i/90_000%12+1, i/3000%30+1, i%3000)
}

// benchTag is unpredictable, and the same for the same file.
func benchTag(i int) string {
	r := rand.NewPCG(uint64(i), 1)
	return fmt.Sprintf("\"%016x%016x\"", r.Uint64(), r.Uint64())
}

func benchSize(i int) int64 { return 50_000 + int64(rand.NewPCG(uint64(i), 2).Uint64()%5_000_000) }

func isBenchNew(i int) bool { return i%(benchFiles/benchNew) == 7 }

// benchLedger is a ledger of all the files but the new ones, committed by
// twenty runs that each took every twentieth file: no two segments are apart.
func benchLedger(b *testing.B) *Ledger {
	b.Helper()
	l := openLedger(b, bucket.NewMemory("state", nil))
	for run := range 20 {
		var rows []Row
		for i := run; i < benchFiles; i += 20 {
			if !isBenchNew(i) {
				rows = append(rows, Row{Key: benchKey(i), ETag: benchTag(i), Size: benchSize(i), Outcome: Done})
			}
		}
		c, err := l.Commit(b.Context(), Commit{Run: fmt.Sprint("run-", run), Token: int64(run + 1), Rows: EachRow(rows)})
		if err != nil || c.MergeErr != nil {
			b.Fatal(err, c.MergeErr)
		}
	}
	head, err := l.Head(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	var size int64
	for _, s := range head.Segments {
		size += s.Bytes
	}
	b.Logf("the ledger has %d rows in %d segments, %.2f bytes a row", head.Rows(), len(head.Segments), float64(size)/float64(head.Rows()))
	return l
}

// memoryPages lists pages that are in memory. A bare loop over them costs
// nothing, so that what is left is the ledger's own time a file.
type memoryPages []bucket.Page

func (m memoryPages) List(context.Context, bucket.ListOptions) iter.Seq2[bucket.Page, error] {
	return listing{pages: m}.List(context.Background(), bucket.ListOptions{})
}

func BenchmarkDiscoverPagesInMemory(b *testing.B) {
	pages := make(memoryPages, 0, benchFiles/1000)
	for from := 0; from < benchFiles; from += 1000 {
		p := bucket.Page{Last: from+1000 == benchFiles}
		for i := from; i < from+1000; i++ {
			p.Entries = append(p.Entries, bucket.Entry{Key: benchKey(i), ETag: benchTag(i), Size: benchSize(i)})
		}
		pages = append(pages, p)
	}
	benchmarkDiscover(b, pages)
}

// BenchmarkDiscoverOverHTTP lists through the S3 client from a server in the
// same process, which makes its pages on the fly.
func BenchmarkDiscoverOverHTTP(b *testing.B) {
	server := httptest.NewServer(http.HandlerFunc(serveListing))
	defer server.Close()
	client := s3.New(s3.Options{
		Region: "eu-west-1", BaseEndpoint: &server.URL, UsePathStyle: true,
		Credentials: credentials.NewStaticCredentialsProvider("key", "secret", ""),
	})
	source, err := bucket.New(client, "source", bucket.Options{})
	if err != nil {
		b.Fatal(err)
	}
	benchmarkDiscover(b, source)
}

func serveListing(w http.ResponseWriter, r *http.Request) {
	from, _ := strconv.Atoi(r.URL.Query().Get("continuation-token"))
	last := from+1000 >= benchFiles
	var page bytes.Buffer
	fmt.Fprintf(&page, `<?xml version="1.0" encoding="UTF-8"?><ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Name>source</Name><EncodingType>url</EncodingType><MaxKeys>1000</MaxKeys><IsTruncated>%v</IsTruncated>`, !last)
	if !last {
		fmt.Fprintf(&page, `<NextContinuationToken>%d</NextContinuationToken>`, from+1000)
	}
	for i := from; i < from+1000; i++ {
		fmt.Fprintf(&page, `<Contents><Key>%s</Key><LastModified>2026-01-31T12:00:00.000Z</LastModified><ETag>&quot;%s&quot;</ETag><Size>%d</Size><StorageClass>STANDARD</StorageClass></Contents>`,
			benchKey(i), bytes.Trim([]byte(benchTag(i)), `"`), benchSize(i))
	}
	page.WriteString(`</ListBucketResult>`)
	w.Header().Set("Content-Type", "application/xml")
	w.Write(page.Bytes())
}

// cpuTime is what the process has used so far, whatever else the machine does.
func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// benchmarkDiscover compares the CPU time of a discovery with that of a bare
// loop over the same listing, taken in turns.
func benchmarkDiscover(b *testing.B, src Lister) {
	l := benchLedger(b)
	var bare, discovery time.Duration
	for b.Loop() {
		start := cpuTime(b)
		files := 0
		for page, err := range src.List(b.Context(), bucket.ListOptions{}) {
			if err != nil {
				b.Fatal(err)
			}
			files += len(page.Entries)
		}
		bare += cpuTime(b) - start
		start = cpuTime(b)
		found, err := l.Discover(b.Context(), src, Selection{}, time.Time{}, func(Candidate) error { return nil })
		discovery += cpuTime(b) - start
		if err != nil || found.New != benchNew || found.Skipped[SkipDone] != benchFiles-benchNew || files != benchFiles {
			b.Fatalf("found %+v of %d files, %v", found, files, err)
		}
	}
	perFile := func(d time.Duration) float64 { return float64(d.Nanoseconds()) / float64(b.N) / benchFiles }
	b.ReportMetric(perFile(bare), "bare-cpu-ns/file")
	b.ReportMetric(perFile(discovery), "cpu-ns/file")
	b.ReportMetric(float64(discovery)/float64(bare), "ratio")
}

// BenchmarkCommit writes 1,000 outcomes into a ledger of a million rows.
func BenchmarkCommit(b *testing.B) {
	l := benchLedger(b)
	token := int64(100)
	var written, merged int64
	for b.Loop() {
		token++
		rows := make([]Row, 1000)
		for i := range rows {
			rows[i] = Row{Key: fmt.Sprintf("incoming/2027/%08d/events-%06d.csv.gz", token, i), ETag: benchTag(i), Size: benchSize(i), Outcome: Done}
		}
		c, err := l.Commit(b.Context(), Commit{Run: fmt.Sprint("run-", token), Token: token, Rows: EachRow(rows)})
		if err != nil || c.MergeErr != nil {
			b.Fatal(err, c.MergeErr)
		}
		written += c.Bytes
		if c.Merged > 0 {
			merged += newest(b, l).Bytes
		}
	}
	b.ReportMetric(float64(written)/float64(b.N), "bytes/commit")
	b.ReportMetric(float64(merged)/float64(b.N), "merged-bytes/commit")
}

func newest(b *testing.B, l *Ledger) Segment {
	b.Helper()
	head, err := l.Head(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	return head.Segments[len(head.Segments)-1]
}
