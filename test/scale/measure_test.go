package scale

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"os"
	"runtime"
	"runtime/pprof"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/lockstep-pipeline/lockstep/pkg/bucket"
	"github.com/lockstep-pipeline/lockstep/pkg/ledger"
)

// report is what a process prints in the end.
type report struct {
	Wall, CPU time.Duration
	Peak      int64 // bytes resident at most
	Listed    int64 // by a bare listing
	Found     ledger.Discovery
	Keys      []string // taken by a discovery, or committed
	Commits   []commitReport
}

// commitReport is one commit, and what it asked of the servers.
type commitReport struct {
	ledger.Committed
	Tally tally
}

// measure carries out orders, and measures that.
func measure(o orders) (r report, err error) {
	work := map[string]func(context.Context, orders, *report) error{
		"list": list, "discover": discover, "build": build, "commit": commit,
	}[o.Do]
	if work == nil {
		return r, errors.New("there is no such work")
	}
	finish, err := profileTo(o.Profile)
	if err != nil {
		return r, err
	}
	before, err := cpuTime()
	if err != nil {
		return r, err
	}
	start := time.Now()
	if err := work(context.Background(), o, &r); err != nil {
		return r, err
	}
	r.Wall = time.Since(start)
	after, err := cpuTime()
	if err != nil {
		return r, err
	}
	r.CPU = after - before
	if r.Peak, err = peakMemory(); err != nil {
		return r, err
	}
	return r, finish()
}

// profileTo begins a CPU profile. finish ends it, and adds one of all that was
// allocated.
func profileTo(begin string) (finish func() error, err error) {
	if begin == "" {
		return func() error { return nil }, nil
	}
	cpu, err := os.Create(begin + ".cpu")
	if err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(cpu); err != nil {
		return nil, err
	}
	return func() error {
		pprof.StopCPUProfile()
		memory, err := os.Create(begin + ".mem")
		if err != nil {
			return err
		}
		runtime.GC()
		return errors.Join(cpu.Close(), pprof.Lookup("allocs").WriteTo(memory, 0), memory.Close())
	}, nil
}

// open returns a bucket of the servers.
func open(endpoint, name string) (*bucket.Bucket, error) {
	return bucket.New(client(endpoint), name, bucket.Options{})
}

// client is one such as the functions have.
func client(endpoint string) *s3.Client {
	return s3.New(s3.Options{
		BaseEndpoint: aws.String(endpoint), Region: "us-east-1", UsePathStyle: true,
		Credentials:                credentials.NewStaticCredentialsProvider("test", "test", ""),
		ResponseChecksumValidation: aws.ResponseChecksumValidationWhenRequired,
	})
}

func openLedger(o orders) (*ledger.Ledger, error) {
	state, err := open(o.Endpoint, stateBucket)
	if err != nil {
		return nil, err
	}
	return ledger.Open(state, o.Ledger)
}

// list is the baseline: a loop over the pages and nothing else, by the client
// that a discovery uses, or by the SDK's paginator as its users write it.
func list(ctx context.Context, o orders, r *report) error {
	if o.SDK {
		return listBySDK(ctx, o, r)
	}
	source, err := open(o.Endpoint, o.Source)
	if err != nil {
		return err
	}
	pages := 0
	for page, err := range source.List(ctx, bucket.ListOptions{Prefix: sourcePrefix}) {
		if err != nil {
			return err
		}
		r.Listed += int64(len(page.Entries))
		if pages++; pages == o.Pages {
			break
		}
	}
	return nil
}

func listBySDK(ctx context.Context, o orders, r *report) error {
	pages := s3.NewListObjectsV2Paginator(client(o.Endpoint), &s3.ListObjectsV2Input{
		Bucket: aws.String(o.Source), Prefix: aws.String(sourcePrefix),
	})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return err
		}
		r.Listed += int64(len(page.Contents))
	}
	return nil
}

func discover(ctx context.Context, o orders, r *report) error {
	source, err := open(o.Endpoint, o.Source)
	if err != nil {
		return err
	}
	books, err := openLedger(o)
	if err != nil {
		return err
	}
	selection := ledger.Selection{Prefix: sourcePrefix, MaxFiles: o.MaxFiles}
	r.Found, err = books.Discover(ctx, source, selection, time.Time{}, func(c ledger.Candidate) error {
		r.Keys = append(r.Keys, c.Key)
		return nil
	})
	return err
}

// build fills a ledger by commits that each have every n-th file, so that no
// two segments are apart.
func build(ctx context.Context, o orders, _ *report) error {
	books, err := openLedger(o)
	if err != nil {
		return err
	}
	s := newSeason(o.Known, o.Fresh)
	for run := range o.Commits {
		_, err := commitRows(ctx, books, run+1, func(yield func(ledger.Row, error) bool) {
			for i := run; i < s.count; i += o.Commits {
				if !s.isFresh(i) && !yield(s.done(i), nil) {
					return
				}
			}
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// commit adds outcomes of late files, so many to each of so many commits.
func commit(ctx context.Context, o orders, r *report) error {
	books, err := openLedger(o)
	if err != nil {
		return err
	}
	head, err := books.Head(ctx)
	if err != nil {
		return err
	}
	s := newSeason(o.Known, o.Fresh)
	if _, err := readTally(ctx, o.Endpoint); err != nil { // what was before does not count
		return err
	}
	for n := range o.Commits {
		committed, err := commitRows(ctx, books, int(head.Token)+1+n, func(yield func(ledger.Row, error) bool) {
			for i := range o.Rows {
				if !yield(s.late(n*o.Rows+i), nil) {
					return
				}
			}
		})
		if err != nil {
			return err
		}
		asked, err := readTally(ctx, o.Endpoint)
		if err != nil {
			return err
		}
		r.Commits = append(r.Commits, commitReport{committed, asked})
	}
	return nil
}

func commitRows(ctx context.Context, books *ledger.Ledger, token int, rows iter.Seq2[ledger.Row, error]) (ledger.Committed, error) {
	c, err := books.Commit(ctx, ledger.Commit{Run: fmt.Sprint("run-", token), Token: int64(token), At: firstDay, Rows: rows})
	if err != nil {
		return c, err
	}
	return c, c.MergeErr
}

func readTally(ctx context.Context, endpoint string) (t tally, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, endpoint+tallyPath, nil)
	if err != nil {
		return t, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return t, err
	}
	defer response.Body.Close()
	return t, json.NewDecoder(response.Body).Decode(&t)
}
