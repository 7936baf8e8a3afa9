package s3lock

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/lockstep-pipeline/lockstep/pkg/bucket"
)

// ProbeBucket is what a probe needs of a bucket; *bucket.Bucket and
// *bucket.Memory have it.
type ProbeBucket interface {
	Bucket
	Delete(ctx context.Context, key string) error
	List(ctx context.Context, o bucket.ListOptions) iter.Seq2[bucket.Page, error]
}

// ProbeConfig tunes a Probe. Its zero value is sane.
type ProbeConfig struct {
	// Timeout bounds the whole probe, cleaning up included; zero is 30 s.
	Timeout time.Duration
	// Rounds is how often each race is run; zero is 5, the most is 1,000. More
	// rounds find a store that is wrong more rarely.
	Rounds int
	// Rivals is how many race in a round; zero is 32, the most is 256.
	Rivals int
	// List asks for the right to list and compares the ETags of a listing with
	// those of reads, as finding new files needs and a lock does not.
	List bool
	// Each, if set, is called with each finding as it is made.
	Each func(Finding)
	// Rand names the probe's folder; nil is crypto/rand.
	Rand io.Reader
}

const (
	// callTime is how long one request may take before it counts as lost.
	callTime = 5 * time.Second
	// skewWorthTelling between the server's clock and ours says that one of
	// them is off. Nothing depends on it: S3 itself refuses 15 minutes.
	skewWorthTelling = 5 * time.Second
)

func (c ProbeConfig) withDefaults() (ProbeConfig, error) {
	if c.Timeout == 0 {
		c.Timeout = 30 * time.Second
	}
	if c.Rounds == 0 {
		c.Rounds = 5
	}
	if c.Rivals == 0 {
		c.Rivals = 32
	}
	if c.Each == nil {
		c.Each = func(Finding) {}
	}
	if c.Rand == nil {
		c.Rand = rand.Reader
	}
	switch {
	case c.Timeout < 0 || c.Timeout > time.Hour:
		return c, fmt.Errorf("a timeout of %v is not between 0 and 1h", c.Timeout)
	case c.Rounds < 0 || c.Rounds > 1000:
		return c, fmt.Errorf("%d rounds are not between 1 and 1,000", c.Rounds)
	case c.Rivals < 2 || c.Rivals > 256:
		return c, fmt.Errorf("%d rivals are not between 2 and 256", c.Rivals)
	}
	return c, nil
}

// cleanUpTime is what is kept of the timeout for cleaning up.
func (c ProbeConfig) cleanUpTime() time.Duration { return min(5*time.Second, c.Timeout/5) }

// Probe finds out whether b can keep locks below prefix: whether it really
// enforces the conditions that a lock lives by, under concurrency too, tells a
// usable time, and lets the caller do what a lock does. The folder is prefix
// itself, with a slash added where it does not end in one.
//
// The error is ErrEndpointRefused when the store broke a rule, ErrInconclusive
// when it could not be tried; the Report has the reasons and is valid with
// either. Any other error is a mistake in the arguments.
//
// A store that breaks its rules once in a hundred races may pass: a probe can
// show that a store is wrong, not that it is right.
//
// It writes small objects below a folder of a random name, and deletes them.
// With its defaults it sends about 400 requests, most of them writes.
func Probe(ctx context.Context, b ProbeBucket, prefix string, config ProbeConfig) (Report, error) {
	if b == nil {
		return Report{}, errors.New("probe: no bucket given")
	}
	config, err := config.withDefaults()
	if err != nil {
		return Report{}, fmt.Errorf("probe: %w", err)
	}
	name := make([]byte, 8)
	if _, err := io.ReadFull(config.Rand, name); err != nil {
		return Report{}, fmt.Errorf("probe: make a random name: %w", err)
	}
	if prefix != "" && !strings.HasSuffix(prefix, "/") {
		prefix += "/"
	}
	p := &probe{
		store:  &watched{bucket: b, began: time.Now()},
		config: config,
		folder: prefix + ".lockstep-probe-" + hex.EncodeToString(name) + "/",
		name:   hex.EncodeToString(name),
	}
	if err := checkKey(p.folder + "race-0000"); err != nil {
		return Report{}, fmt.Errorf("probe: prefix %q: %w", prefix, err)
	}
	p.report.URL = (&Register{bucket: b, key: prefix}).String()
	work, cancel := context.WithTimeout(ctx, config.Timeout-config.cleanUpTime())
	p.run(work)
	cancel()
	p.cleanUp(ctx)
	p.report.Requests = int(p.store.requests.Load())
	p.report.Seconds = time.Since(p.store.began).Seconds()
	p.report.Verdict = worst(p.report.Findings)
	return p.report, p.report.Err()
}

// probe is one run of Probe.
type probe struct {
	store  *watched
	config ProbeConfig
	folder string // all keys begin with it
	name   string
	report Report

	blocked string          // why no further check makes sense; "" while it does
	object  version         // the present version of the object under test
	earlier bucket.Written  // a version that the object had before
	races   map[int]version // the winners of the creates, by round
	keys    []string        // all that may have been written
	serial  int             // of the last body
	kept    atomic.Int64    // versions that a delete does not remove
}

// A version is an object's content and the name of it.
type version struct {
	content string
	bucket.Written
}

// checks are made in this order; the later ones build on the earlier.
var checks = []struct {
	name string
	run  func(*probe, context.Context) Finding
}{
	{"write access", (*probe).checkWrite},
	{"read access", (*probe).checkRead},
	{"missing objects", (*probe).checkMissing},
	{"etag", (*probe).checkETag},
	{"create", (*probe).checkCreate},
	{"swap", (*probe).checkSwap},
	{"stale swap", (*probe).checkStaleSwap},
	{"swap of a missing object", (*probe).checkMissingSwap},
	{"unquoted etag", (*probe).checkUnquoted},
	{"unchanged read", (*probe).checkUnchanged},
	{"pinned read", (*probe).checkPinned},
	{"listing", (*probe).checkListing},
	{"concurrent creates", (*probe).checkCreates},
	{"concurrent swaps", (*probe).checkSwaps},
	{"server time", (*probe).checkTime},
}

func (p *probe) run(ctx context.Context) {
	for _, check := range checks {
		if check.name == "listing" && !p.config.List {
			continue
		}
		f := Finding{Verdict: Unknown, Detail: "not tried: " + p.blocked}
		if p.blocked == "" || check.name == "server time" {
			f = check.run(p, ctx)
			if f.Verdict == Unknown && ctx.Err() != nil {
				p.blocked = "the time was up"
				if errors.Is(ctx.Err(), context.Canceled) {
					p.blocked = "the probe was cancelled"
				}
			}
		}
		p.add(check.name, f)
	}
}

func (p *probe) add(check string, f Finding) {
	f.Check = check
	p.report.Findings = append(p.report.Findings, f)
	p.config.Each(f)
}

// cleanUp removes what the probe wrote, also after ctx has ended.
func (p *probe) cleanUp(ctx context.Context) {
	if len(p.keys) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), p.config.cleanUpTime())
	defer cancel()
	removed := make([]bool, len(p.keys))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(16)
	for i, key := range p.keys {
		group.Go(func() error {
			err := p.store.Delete(ctx, key)
			removed[i] = err == nil
			return err
		})
	}
	trouble := group.Wait()
	for i, key := range p.keys {
		if !removed[i] {
			p.report.Left = append(p.report.Left, key)
		}
	}
	p.add("cleanup", p.cleaned(trouble))
}

func (p *probe) cleaned(trouble error) Finding {
	kept := p.kept.Load()
	switch {
	case trouble != nil:
		f := p.trouble("delete", trouble)
		f.Verdict = Note
		f.Detail = fmt.Sprintf("%d of the probe's %d objects stay below %s: %s", len(p.report.Left), len(p.keys), p.folder, f.Detail)
		f.Advice = strings.TrimPrefix(f.Advice+"; a lock works without, so deleting them by hand will do", "; ")
		return f
	case kept > 0:
		return Finding{
			Verdict: Note,
			Detail:  fmt.Sprintf("removed the probe's %d objects, but the bucket keeps their %d versions", len(p.keys), kept),
			Advice:  "let a lifecycle rule expire noncurrent versions; a lock leaves one at each change, too",
		}
	}
	return ok(fmt.Sprintf("removed the probe's %d objects", len(p.keys)))
}

// body is content that no other write of this or any probe has. All have the
// same length: a store may make its ETags of size and time.
func (p *probe) body() string {
	p.serial++
	line := fmt.Sprintf("lockstep probe %s %09d\n", p.name, p.serial)
	return strings.Repeat(line, bodySize/len(line))
}

// bodySize is about that of a lock with some waiters.
const bodySize = 4096

// read returns the present version of an object.
func (p *probe) read(ctx context.Context, key string, c bucket.Condition) (version, error) {
	var v version
	err := p.patiently(ctx, func(ctx context.Context) error {
		object, err := p.store.Get(ctx, key, c)
		if err != nil {
			return err
		}
		defer object.Body.Close()
		content, err := io.ReadAll(io.LimitReader(object.Body, maxBody))
		if err != nil {
			return fmt.Errorf("read %s: %w", key, err)
		}
		v = version{string(content), bucket.Written{ETag: object.ETag, VersionID: object.VersionID, ServerTime: object.ServerTime}}
		return nil
	})
	return v, err
}

// write puts a new body at key, and finds out what became of it: the error is
// one of the bucket's certain ones, or lasting trouble.
func (p *probe) write(ctx context.Context, key string, c bucket.Condition) (version, error) {
	v := version{content: p.body()}
	uncertain := false
	err := p.patiently(ctx, func(ctx context.Context) (err error) {
		v.Written, err = p.put(ctx, key, v.content, c)
		if err == nil || errors.Is(err, bucket.ErrConflict) || !uncertain && (certain(err) || turnedDown(err)) {
			return err
		}
		// It may have been this very body that an earlier attempt left there.
		uncertain = true
		now, readErr := p.read(ctx, key, bucket.Condition{})
		if readErr == nil && now.content == v.content {
			v = now
			return nil
		}
		return err
	})
	if err == nil || uncertain {
		p.remember(key)
	}
	return v, err
}

// put is one PUT.
func (p *probe) put(ctx context.Context, key, content string, c bucket.Condition) (bucket.Written, error) {
	written, err := p.store.Put(ctx, key, strings.NewReader(content), "text/plain", c)
	if err == nil && written.VersionID != "" && written.VersionID != "null" {
		p.kept.Add(1)
	}
	return written, err
}

// remember that there may be something to clean up.
func (p *probe) remember(key string) {
	if !slices.Contains(p.keys, key) {
		p.keys = append(p.keys, key)
	}
}

func certain(err error) bool {
	return errors.Is(err, bucket.ErrPrecondition) || errors.Is(err, bucket.ErrNotFound)
}

// patiently repeats a call that failed for a passing reason.
func (p *probe) patiently(ctx context.Context, call func(context.Context) error) error {
	const attempts = 5
	for attempt := 1; ; attempt++ {
		once, cancel := context.WithTimeout(ctx, callTime)
		err := call(once)
		cancel()
		if err == nil || attempt == attempts || ctx.Err() != nil || !passing(err) && !errors.Is(err, io.ErrUnexpectedEOF) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(50 * time.Millisecond << attempt):
		}
	}
}
