package soak

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/lockstep-pipeline/lockstep/pkg/bucket"
	"github.com/lockstep-pipeline/lockstep/pkg/lease"
	"github.com/lockstep-pipeline/lockstep/pkg/s3lock"
)

const (
	bucketName = "soak"
	lockKey    = "locks/soak.json"
	counterKey = "counter"

	ttl   = 3 * time.Second
	grace = 2 * time.Second // one for the Date's resolution, one for its steps
	poll  = 100 * time.Millisecond
)

// orders is what a client process is told in the environment.
type orders struct {
	Owner  string `json:"owner"`
	Seed   uint64 `json:"seed"`
	Proxy  string `json:"proxy"`  // the way to the lock and the fence
	Direct string `json:"direct"` // the way to the counter, which is never cut
	// Deaf makes a client that does not stop when its lease is lost, to see the
	// soak find it.
	Deaf bool `json:"deaf,omitempty"`
}

// worker is a client in its own process.
type worker struct {
	orders
	lock    *lease.Lock
	counter *bucket.Bucket
	fence   *http.Client
	random  *rand.Rand
	out     *json.Encoder

	stopping atomic.Bool
	// linger makes the next hold long: the release before it was given up, and
	// should it land late it must find somebody under whom it frees the lock.
	linger bool
}

// work takes the lock again and again until standard input ends, and then until
// nothing is left to give back. It returns the exit code.
func work(spec string) int {
	var o orders
	if err := json.Unmarshal([]byte(spec), &o); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	w, err := newWorker(o)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	go func() {
		defer w.stopping.Store(true)
		_, _ = io.Copy(io.Discard, os.Stdin)
	}()
	for !w.stopping.Load() || w.linger {
		w.turn(context.Background())
	}
	return 0
}

func newWorker(o orders) (*worker, error) {
	locks, err := newBucket(o.Proxy)
	if err != nil {
		return nil, err
	}
	counter, err := newBucket(o.Direct)
	if err != nil {
		return nil, err
	}
	register, err := s3lock.New(locks, lockKey)
	if err != nil {
		return nil, err
	}
	lock, err := lease.New(register, lease.Config{TTL: ttl, Grace: grace, Poll: poll})
	if err != nil {
		return nil, err
	}
	return &worker{
		orders: o, lock: lock, counter: counter, fence: &http.Client{Timeout: time.Second},
		random: rand.New(rand.NewPCG(o.Seed, 2)), out: json.NewEncoder(os.Stdout),
	}, nil
}

func newBucket(endpoint string) (*bucket.Bucket, error) {
	return bucket.New(s3.New(s3.Options{
		BaseEndpoint: aws.String(endpoint), Region: "us-east-1", UsePathStyle: true,
		Credentials:                credentials.NewStaticCredentialsProvider("test", "test", ""),
		HTTPClient:                 &http.Client{Transport: &http.Transport{}},
		ResponseChecksumValidation: aws.ResponseChecksumValidationWhenRequired,
	}), bucketName, bucket.Options{})
}

// say writes a record down before anything else happens: a pipe keeps what a
// killed process wrote.
func (w *worker) say(r record) {
	r.Owner = w.Owner
	if r.At.IsZero() {
		r.At = time.Now()
	}
	if err := w.out.Encode(r); err != nil {
		os.Exit(3) // the parent is gone
	}
}

func (w *worker) turn(ctx context.Context) {
	w.say(record{Act: asked})
	g, err := w.lock.Acquire(ctx, w.Owner)
	if err != nil {
		w.say(record{Act: failed, Note: err.Error()})
		return
	}
	w.say(record{Act: held, Token: g.Token})
	held, stop := w.lock.Keep(ctx, g)
	acts := held
	if w.Deaf {
		acts = ctx
	}
	rounds := 1 + w.random.IntN(3)
	if w.linger {
		rounds, w.linger = 20, false
	}
	for range rounds {
		w.increment(acts, g)
		w.stamp(acts, g)
		w.rest(acts)
	}
	lost := held.Err() != nil
	stop()
	w.say(record{Act: left, Token: g.Token, Lost: lost})
	// Some have no patience: their release may land when they have long asked for
	// the lock again, under the same name.
	patience := 10 * time.Second
	if w.random.IntN(6) == 0 && !w.stopping.Load() {
		patience = time.Duration(w.random.IntN(10)) * time.Millisecond
	}
	within, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if _, err := w.lock.Release(within, g.Owner, g.Token, "done"); err != nil {
		w.say(record{Act: kept, Token: g.Token, Note: err.Error()})
		w.linger = true
		return
	}
	w.say(record{Act: released, Token: g.Token})
}

// rest makes a hold last: mostly shorter than a renewal, sometimes longer than
// a lease.
func (w *worker) rest(ctx context.Context) {
	d := time.Duration(1+w.random.IntN(10)) * time.Millisecond
	if w.random.IntN(200) == 0 {
		d = time.Duration(1+w.random.IntN(4)) * time.Second
	}
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// increment reads the counter and writes it back, without any condition. Only
// the lock keeps others from doing so in between.
func (w *worker) increment(ctx context.Context, g lease.Grant) {
	if ctx.Err() != nil {
		return
	}
	value, err := readCounter(ctx, w.counter)
	if err != nil {
		if ctx.Err() == nil {
			w.say(record{Act: failed, Token: g.Token, Note: err.Error()})
		}
		return
	}
	w.rest(ctx)
	w.say(record{Act: intent, Token: g.Token, Value: value})
	if ctx.Err() != nil {
		w.say(record{Act: dropped, Token: g.Token})
		return
	}
	if err := writeCounter(ctx, w.counter, value+1); err == nil {
		w.say(record{Act: done, Token: g.Token})
	}
}

func readCounter(ctx context.Context, b *bucket.Bucket) (int64, error) {
	object, err := b.Get(ctx, counterKey, bucket.Condition{})
	if errors.Is(err, bucket.ErrNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	defer object.Body.Close()
	text, err := io.ReadAll(object.Body)
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(string(text), 10, 64)
}

func writeCounter(ctx context.Context, b *bucket.Bucket, value int64) error {
	_, err := b.Put(ctx, counterKey, strings.NewReader(strconv.FormatInt(value, 10)), "text/plain", bucket.Condition{})
	return err
}

// stamp sends the token to the fenced resource, on the bad line, until it has
// an answer: whose line is down works on until its lease is lost.
func (w *worker) stamp(ctx context.Context, g lease.Grant) {
	for ctx.Err() == nil && !w.tryStamp(ctx, g) {
		w.rest(ctx)
	}
}

func (w *worker) tryStamp(ctx context.Context, g lease.Grant) (answered bool) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPut, fmt.Sprintf("%s%s%d", w.Proxy, fencePath, g.Token), nil)
	if err != nil {
		panic(err) // the proxy's address is wrong
	}
	response, err := w.fence.Do(request)
	if err != nil {
		return false
	}
	response.Body.Close()
	switch {
	case response.StatusCode == http.StatusNoContent:
		w.say(record{Act: stamped, Token: g.Token})
	case response.StatusCode == http.StatusGone && ctx.Err() == nil:
		w.say(record{Act: refused, Token: g.Token})
	case response.StatusCode != http.StatusGone:
		return false
	}
	return true
}
