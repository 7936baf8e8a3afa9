package s3lock_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/lockstep-pipeline/lockstep/pkg/bucket"
	"github.com/lockstep-pipeline/lockstep/pkg/bucket/s3test"
	"github.com/lockstep-pipeline/lockstep/pkg/lease"
)

// The benchmarks compare with what one would write by hand on the same server
// in the same run, and report the ratio. The times themselves say little: the
// server is in this process.

// benchServer is an S3 endpoint on loopback that counts requests and takes
// latency to answer each.
type benchServer struct {
	*s3test.Server
	memory     *bucket.Memory
	url        string
	gets, puts atomic.Int64
}

func newBenchServer(b *testing.B, latency time.Duration) *benchServer {
	memory := bucket.NewMemory("bucket", nil)
	s := &benchServer{memory: memory, Server: s3test.New(b, memory)}
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPut {
			s.puts.Add(1)
		} else {
			s.gets.Add(1)
		}
		if latency > 0 {
			time.Sleep(latency)
		}
		s.ServeHTTP(w, r)
	}))
	b.Cleanup(front.Close)
	s.url = front.URL
	return s
}

func (s *benchServer) sdk() *s3.Client {
	return s.Client(func(o *s3.Options) {
		o.BaseEndpoint = aws.String(s.url)
		o.HTTPClient = &http.Client{Transport: &http.Transport{}}
	})
}

func (s *benchServer) lock(b *testing.B, cfg lease.Config) *lease.Lock {
	b.Helper()
	store, err := bucket.New(s.sdk(), "bucket", bucket.Options{})
	if err != nil {
		b.Fatal(err)
	}
	l, err := lease.New(register(b, store), cfg)
	if err != nil {
		b.Fatal(err)
	}
	return l
}

func (s *benchServer) requests() int64 { return s.gets.Load() + s.puts.Load() }

// byHand is a client that does by hand what the lock does underneath.
type byHand struct {
	client *s3.Client
	key    string
	body   []byte
	etag   *string
}

// swap puts the next body; every body differs, as the lock's do.
func (c *byHand) swap(ctx context.Context) error {
	c.body = fmt.Appendf(c.body[:len(c.body)-16], "%016x", rand.Uint64())
	out, err := c.client.PutObject(ctx, &s3.PutObjectInput{
		Bucket: aws.String("bucket"), Key: &c.key, Body: bytes.NewReader(c.body),
		ContentType: aws.String("application/json"), IfMatch: c.etag,
	}, func(o *s3.Options) { o.Retryer = aws.NopRetryer{} })
	if err != nil {
		return err
	}
	c.etag = out.ETag
	return nil
}

// poll reads the object unless it is the one that was read before.
func (c *byHand) poll(ctx context.Context) error {
	out, err := c.client.GetObject(ctx, &s3.GetObjectInput{Bucket: aws.String("bucket"), Key: &c.key, IfNoneMatch: c.etag})
	if status(err) == http.StatusNotModified {
		return nil
	}
	if err != nil {
		return err
	}
	defer out.Body.Close()
	c.etag = out.ETag
	_, err = io.Copy(io.Discard, out.Body)
	return err
}

func (c *byHand) swapUntilDone(ctx context.Context) error {
	for {
		err := c.swap(ctx)
		if status(err) != http.StatusPreconditionFailed {
			return err
		}
		if err := c.poll(ctx); err != nil {
			return err
		}
	}
}

func status(err error) int {
	var answer *awshttp.ResponseError
	if errors.As(err, &answer) {
		return answer.HTTPStatusCode()
	}
	return 0
}

// settled is a lock whose document has its usual size: the bounded list of
// events is full.
func (s *benchServer) settled(b *testing.B) *lease.Lock {
	b.Helper()
	l := s.lock(b, lease.Config{})
	for range 20 {
		s.cycle(b, l)
	}
	return l
}

func (s *benchServer) cycle(b *testing.B, l *lease.Lock) {
	g, err := l.TryAcquire(b.Context(), "arn:aws:states:us-east-1:123456789012:execution:nightly:run-1")
	if err != nil {
		b.Fatal(err)
	}
	if _, err := l.Release(b.Context(), g.Owner, g.Token, "done"); err != nil {
		b.Fatal(err)
	}
}

func (s *benchServer) size(b *testing.B, key string) int {
	b.Helper()
	object, err := s.memory.Get(b.Context(), key, bucket.Condition{})
	if err != nil {
		b.Fatal(err)
	}
	return int(object.Size)
}

// An uncontended acquire and release by a client that knows the lock, against
// two conditional PUTs of as many bytes.
func BenchmarkUncontended(b *testing.B) {
	for _, latency := range []time.Duration{0, 5 * time.Millisecond} {
		b.Run(fmt.Sprintf("latency=%v", latency), func(b *testing.B) {
			s := newBenchServer(b, latency)
			l := s.settled(b)
			hand := &byHand{client: s.sdk(), key: "bare", body: make([]byte, s.size(b, key))}
			if err := hand.swap(b.Context()); err != nil {
				b.Fatal(err)
			}
			var lock, bare []time.Duration
			var lockRequests, bareRequests int64
			for b.Loop() {
				// In turns, so that whatever else the machine does hits both.
				before, start := s.requests(), time.Now()
				s.cycle(b, l)
				lock = append(lock, time.Since(start))
				between := s.requests()
				start = time.Now()
				for range 2 {
					if err := hand.swap(b.Context()); err != nil {
						b.Fatal(err)
					}
				}
				bare = append(bare, time.Since(start))
				lockRequests += between - before
				bareRequests += s.requests() - between
			}
			if lockRequests != bareRequests {
				b.Errorf("the lock took %d requests where %d do by hand", lockRequests, bareRequests)
			}
			b.ReportMetric(float64(median(lock))/float64(median(bare)), "time/bare")
			b.ReportMetric(float64(lockRequests)/float64(bareRequests), "requests/bare")
			b.ReportMetric(0, "ns/op") // both together, which is of no use
		})
	}
}

// median is what a busy machine distorts least.
func median(d []time.Duration) time.Duration {
	slices.Sort(d)
	return d[len(d)/2]
}

// roundTrip is the time of one conditional read that changes nothing, which is
// what a poll costs.
func (s *benchServer) roundTrip(b *testing.B) time.Duration {
	b.Helper()
	hand := &byHand{client: s.sdk(), key: key}
	const reads = 20
	var took []time.Duration
	for i := range reads + 1 {
		start := time.Now()
		if err := hand.poll(b.Context()); err != nil {
			b.Fatal(err)
		}
		if i > 0 { // the first reads the object and opens the connection
			took = append(took, time.Since(start))
		}
	}
	return median(took)
}

// From the moment a holder begins to release until the next in line holds, in
// round trips, with a poll of ten of them. The least possible is three: the
// release, the poll that sees it, the write that takes the lock. To expect are
// some four more, since a poll of 5 to 10 is met at a random moment.
func BenchmarkHandoff(b *testing.B) {
	const latency = 5 * time.Millisecond
	for _, waiters := range []int{2, 8, 32} {
		b.Run(fmt.Sprintf("waiters=%d", waiters), func(b *testing.B) {
			s := newBenchServer(b, latency)
			ctx, cancel := context.WithCancel(b.Context())
			turns := make(chan turn)
			var queue sync.WaitGroup
			for i := range waiters + 1 {
				l := s.lock(b, lease.Config{Poll: 10 * latency})
				queue.Go(func() { takeTurns(ctx, l, fmt.Sprint("client-", i), turns) })
			}
			s.cycleUntilQueued(b, waiters)
			roundTrip := s.roundTrip(b)
			now := <-turns
			var took []time.Duration
			for b.Loop() {
				start := time.Now()
				close(now.end)
				now = <-turns
				took = append(took, now.began.Sub(start))
			}
			b.ReportMetric(float64(median(took))/float64(roundTrip), "roundtrips/handoff")
			b.ReportMetric(0, "ns/op")
			cancel()
			queue.Wait()
		})
	}
}

// turn is one hold, which lasts until end is closed.
type turn struct {
	began time.Time
	end   chan struct{}
}

func takeTurns(ctx context.Context, l *lease.Lock, owner string, turns chan<- turn) {
	for {
		g, err := l.Acquire(ctx, owner)
		if err != nil {
			return
		}
		t := turn{began: time.Now(), end: make(chan struct{})}
		select {
		case turns <- t:
		case <-ctx.Done():
			return
		}
		select {
		case <-t.end:
		case <-ctx.Done():
			return
		}
		if _, err := l.Release(ctx, g.Owner, g.Token, "done"); err != nil {
			return
		}
	}
}

// cycleUntilQueued waits until so many queue behind the first holder.
func (s *benchServer) cycleUntilQueued(b *testing.B, waiters int) {
	b.Helper()
	l := s.lock(b, lease.Config{})
	for {
		status, err := l.Inspect(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		if len(status.Waiters) == waiters {
			return
		}
	}
}

// Swaps of one object by eight clients at once: renewals of a lock with eight
// places, against a loop that reads, puts, and begins anew at a 412.
func BenchmarkContendedSwaps(b *testing.B) {
	const clients = 8
	const latency = 20 * time.Millisecond // about S3's
	s := newBenchServer(b, latency)
	renewers := make([]func() error, clients)
	for i := range renewers {
		l := s.lock(b, lease.Config{Limit: clients, TTL: time.Hour})
		g, err := l.TryAcquire(b.Context(), fmt.Sprint("client-", i))
		if err != nil {
			b.Fatal(err)
		}
		renewers[i] = func() error {
			_, err := l.Renew(b.Context(), g)
			return err
		}
	}
	first := &byHand{client: s.sdk(), key: "bare", body: make([]byte, s.size(b, key))}
	if err := first.swap(b.Context()); err != nil {
		b.Fatal(err)
	}
	swappers := make([]func() error, clients)
	for i := range swappers {
		c := &byHand{client: s.sdk(), key: "bare", body: bytes.Clone(first.body), etag: first.etag}
		swappers[i] = func() error { return c.swapUntilDone(b.Context()) }
	}
	var lock, bare phase
	for b.Loop() {
		lock.add(s.race(b, renewers))
		bare.add(s.race(b, swappers))
	}
	b.ReportMetric(lock.rate()/bare.rate(), "swaps/bare")
	b.ReportMetric(lock.cost(), "requests/swap")
	b.ReportMetric(bare.cost(), "bare-requests/swap")
	b.ReportMetric(0, "ns/op")
}

// phase is what so many swaps took.
type phase struct {
	swaps, requests int64
	took            time.Duration
}

func (p *phase) add(q phase) {
	p.swaps, p.requests, p.took = p.swaps+q.swaps, p.requests+q.requests, p.took+q.took
}
func (p *phase) rate() float64 { return float64(p.swaps) / p.took.Seconds() }
func (p *phase) cost() float64 { return float64(p.requests) / float64(p.swaps) }

// race lets all swap the same object for half a second.
func (s *benchServer) race(b *testing.B, swaps []func() error) phase {
	b.Helper()
	var done atomic.Int64
	before, start := s.requests(), time.Now()
	var racing sync.WaitGroup
	for _, swap := range swaps {
		racing.Go(func() {
			for time.Since(start) < time.Second/2 {
				if err := swap(); err != nil {
					b.Error(err)
					return
				}
				done.Add(1)
			}
		})
	}
	racing.Wait()
	return phase{swaps: done.Load(), requests: s.requests() - before, took: time.Since(start)}
}
