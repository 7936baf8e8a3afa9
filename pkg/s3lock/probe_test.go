package s3lock_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstep-pipeline/lockstep/pkg/bucket"
	"github.com/lockstep-pipeline/lockstep/pkg/bucket/s3test"
	"github.com/lockstep-pipeline/lockstep/pkg/lease/leasetest"
	"github.com/lockstep-pipeline/lockstep/pkg/s3lock"
)

// probed is a probe of a store that a test breaks, in a bubble of its own time.
type probed struct {
	*testing.T
	server *s3test.Server
	memory *bucket.Memory
	config s3lock.ProbeConfig
}

func probing(t *testing.T, f func(p *probed)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		memory := bucket.NewMemory("bucket", nil)
		f(&probed{
			T: t, memory: memory, server: s3test.New(t, memory),
			config: s3lock.ProbeConfig{List: true, Rivals: 8, Rand: leasetest.Seeded(1)},
		})
	})
}

func (p *probed) always(op string, f s3test.Failure) {
	p.server.Fail(s3test.Fault{Op: op, Times: s3test.Always, Do: f})
}

func (p *probed) run() (s3lock.Report, error) {
	p.Helper()
	return s3lock.Probe(p.Context(), client(p, p.server), "locks", p.config)
}

// good wants a probe without an error, and returns what it found.
func (p *probed) good() s3lock.Report {
	p.Helper()
	report, err := p.run()
	if err != nil {
		p.Fatal(err)
	}
	return report
}

// finding returns what a check came to.
func finding(t testing.TB, r s3lock.Report, check string) s3lock.Finding {
	t.Helper()
	for _, f := range r.Findings {
		if f.Check == check {
			return f
		}
	}
	t.Fatalf("nothing was found on %q: %+v", check, r)
	return s3lock.Finding{}
}

// with returns the checks that came to a verdict.
func with(r s3lock.Report, v s3lock.Verdict) (checks []string) {
	for _, f := range r.Findings {
		if f.Verdict == v {
			checks = append(checks, f.Check)
		}
	}
	return checks
}

func (p *probed) empty() {
	p.Helper()
	for page, err := range p.memory.List(p.Context(), bucket.ListOptions{}) {
		if err != nil {
			p.Fatal(err)
		}
		for _, e := range page.Entries {
			p.Errorf("%s stayed behind", e.Key)
		}
	}
}

func TestAGoodStorePasses(t *testing.T) {
	probing(t, func(p *probed) {
		p.config.Rivals = 0 // the default
		var told []s3lock.Finding
		p.config.Each = func(f s3lock.Finding) { told = append(told, f) }
		report := p.good()
		if report.Verdict != s3lock.OK || len(with(report, s3lock.OK)) != len(report.Findings) {
			p.Errorf("%+v", report)
		}
		if !slices.Equal(told, report.Findings) {
			p.Errorf("told %+v, reported %+v", told, report.Findings)
		}
		if n := len(p.server.Requests("put")) + len(p.server.Requests("get")) + len(p.server.Requests("list")) + len(p.server.Requests("delete")); n != report.Requests {
			p.Errorf("%d requests, reported %d", n, report.Requests)
		}
		if n := len(p.server.Requests("put")); n < 2*5*32 {
			p.Errorf("only %d writes", n)
		}
		if report.URL != "s3://bucket/locks/" {
			p.Errorf("URL %q", report.URL)
		}
		p.empty()
	})
}

func TestTheMemoryBucketPasses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		report, err := s3lock.Probe(t.Context(), bucket.NewMemory("bucket", nil), "", s3lock.ProbeConfig{List: true})
		if err != nil || report.Verdict != s3lock.OK {
			t.Errorf("%v, %+v", err, report)
		}
	})
}

func TestAProbeStaysBelowItsPrefix(t *testing.T) {
	probing(t, func(p *probed) {
		p.good()
		for _, op := range []string{"get", "put", "delete", "list"} {
			for _, r := range p.server.Requests(op) {
				if !strings.HasPrefix(r.Key, "locks/.lockstep-probe-") {
					p.Errorf("%s %s", op, r.Key)
				}
			}
		}
		if n := len(p.server.Requests("")); n > 0 {
			p.Errorf("%d other requests", n)
		}
	})
}

func TestAProbeListsOnlyIfAsked(t *testing.T) {
	probing(t, func(p *probed) {
		p.config.List = false
		p.always("list", s3test.Answer(403, "AccessDenied"))
		p.good()
		if n := len(p.server.Requests("list")); n > 0 {
			p.Errorf("%d listings", n)
		}
	})
}

// Cases 5 and 6: each breaks one rule, and the check of that rule says so.
func TestAStoreThatBreaksARuleIsRefused(t *testing.T) {
	for _, c := range []struct {
		name  string
		check string // that must refuse
		fault func(p *probed)
	}{
		{"a PUT ignores If-None-Match", "create", func(p *probed) { p.always("put", without("If-None-Match")) }},
		{"a PUT ignores If-Match", "stale swap", func(p *probed) { p.always("put", without("If-Match")) }},
		{"a PUT ignores If-Match where there is nothing", "swap of a missing object", func(p *probed) {
			p.always("put", onKey("/missing", without("If-Match")))
		}},
		{"a GET ignores If-Match", "pinned read", func(p *probed) { p.always("get", without("If-Match")) }},
		{"a GET with If-None-Match is always a 304", "unchanged read", func(p *probed) {
			p.always("get", with304)
		}},
		{"no condition is implemented", "write access", func(p *probed) { p.always("put", s3test.Answer(501, "NotImplemented")) }},
		{"conditions of reads are not implemented", "unchanged read", func(p *probed) {
			p.always("get", conditional(s3test.Answer(501, "NotImplemented")))
		}},
		{"a create is checked and then made", "concurrent creates", func(p *probed) {
			p.always("put", p.inTwoSteps("If-None-Match"))
		}},
		{"a swap is checked and then made", "concurrent swaps", func(p *probed) {
			p.always("put", p.inTwoSteps("If-Match"))
		}},
		{"two of the last round win", "concurrent swaps", func(p *probed) {
			p.always("put", onKey("race-0004", p.inTwoSteps("If-Match")))
		}},
		{"what is refused is written", "stale swap", func(p *probed) { p.always("put", p.refusedYetWritten) }},
		{"what is refused is written when many ask", "concurrent creates", func(p *probed) {
			p.always("put", onKey("race-", p.refusedYetWritten))
		}},
		{"what is accepted is lost", "read access", func(p *probed) { p.always("put", p.acceptedYetLost) }},
		{"what is accepted is lost when many ask", "concurrent swaps", func(p *probed) {
			p.always("put", onKey("race-", onlyIf("If-Match", p.acceptedYetLost)))
		}},
		{"what is refused is written later", "concurrent swaps", func(p *probed) { p.always("put", p.writtenLater()) }},
		{"nothing can be created", "write access", func(p *probed) { p.always("put", s3test.Answer(412, "PreconditionFailed")) }},
		{"contents change on the way", "read access", func(p *probed) { p.always("get", s3test.ShortReply(10)) }},
		{"no Date", "server time", func(p *probed) { p.always("", p.withDate(nil)) }},
		{"no Date on a 304", "server time", func(p *probed) { p.always("get", onlyIf("If-None-Match", p.withDate(nil))) }},
		{"the clock stands still", "server time", func(p *probed) {
			p.always("", p.withDate(func(time.Time) time.Time { return time.Unix(1e9, 0) }))
		}},
		{"the clock goes back", "server time", func(p *probed) {
			p.always("put", p.withDate(func(t time.Time) time.Time { return t.Add(4 * time.Second) }))
		}},
		{"no ETag", "etag", func(p *probed) { p.always("", changeETags(func(string) string { return "" })) }},
		{"an ETag that a read gives in another way", "etag", func(p *probed) { p.always("get", changeETags(bare)) }},
		{"an ETag made of size and time", "swap", func(p *probed) {
			p.always("", func(w http.ResponseWriter, r *http.Request, next http.Handler) {
				sizeAndTime := changeETags(func(string) string { return `"4096-65920080"` })
				without("If-Match")(w, r, served(sizeAndTime, next))
			})
		}},
		{"quotes are sent, and not taken", "swap", func(p *probed) {
			p.always("put", onlyIf("If-Match", changeCondition(func(etag string) string {
				if strings.HasPrefix(etag, `"`) {
					return `"never"`
				}
				return quoted(etag)
			})))
		}},
		{"listed without the quotes of a read", "listing", func(p *probed) { p.always("list", changeListed("&#34;", "")) }},
		{"listed late", "listing", func(p *probed) { p.always("list", changeListed("/object", "/other")) }},
		{"a missing object without a code", "missing objects", func(p *probed) {
			p.always("get", onKey("/missing", s3test.Answer(404, "NotFound")))
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			probing(t, func(p *probed) {
				c.fault(p)
				report, err := p.run()
				if !errors.Is(err, s3lock.ErrEndpointRefused) || errors.Is(err, s3lock.ErrInconclusive) || report.Verdict != s3lock.Refused {
					p.Fatalf("error %v, report %+v", err, report)
				}
				f := finding(p, report, c.check)
				if f.Verdict != s3lock.Refused || f.Advice == "" {
					p.Errorf("%+v", f)
				}
				if !strings.Contains(err.Error(), "s3://bucket/locks/") {
					p.Errorf("no URL in %v", err)
				}
				p.server.Heal()
				p.empty()
			})
		})
	}
}

// Case 7: a store without quotes is as good as one with.
func TestAStoreThatKnowsNoQuotesPasses(t *testing.T) {
	probing(t, func(p *probed) {
		list := changeListed("&#34;", "")
		p.always("list", list)
		p.always("", func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			if c := r.Header.Get("If-Match"); strings.HasPrefix(c, `"`) { // takes only its own form
				r.Header.Set("If-Match", `"never"`)
			}
			changeCondition(quoted)(w, r, served(changeETags(bare), next))
		})
		report := p.good()
		if f := finding(p, report, "etag"); strings.Contains(f.Detail, `"`) {
			p.Errorf("%+v", f)
		}
	})
}

func TestAStoreThatTakesAnyQuotesPasses(t *testing.T) {
	probing(t, func(p *probed) {
		p.always("put", changeCondition(func(c string) string { return quoted(bare(c)) }))
		if f := finding(p, p.good(), "unquoted etag"); !strings.Contains(f.Detail, "also") {
			p.Errorf("%+v", f)
		}
	})
}

func TestAListingIsNotALocksBusiness(t *testing.T) {
	probing(t, func(p *probed) {
		p.config.List = false
		p.always("list", changeListed("&#34;", ""))
		p.good()
	})
}

func TestPollsThatCostMoreAreNoted(t *testing.T) {
	probing(t, func(p *probed) {
		p.always("get", without("If-None-Match"))
		if report := p.good(); report.Verdict != s3lock.Note || !slices.Equal(with(report, s3lock.Note), []string{"unchanged read"}) {
			p.Errorf("%+v", report)
		}
	})
}

func TestMissingPermissionsAreNamed(t *testing.T) {
	for _, c := range []struct {
		check, permission, resource string
		fault                       func(p *probed)
	}{
		{"write access", "s3:PutObject", "arn:aws:s3:::bucket/locks/*", func(p *probed) { p.always("put", forbidden) }},
		{"read access", "s3:GetObject", "arn:aws:s3:::bucket/locks/*", func(p *probed) { p.always("get", forbidden) }},
		// S3 gives a 403 for a 404 to who may not list.
		{"missing objects", "s3:ListBucket", "arn:aws:s3:::bucket", func(p *probed) { p.always("get", onKey("/missing", forbidden)) }},
		{"listing", "s3:ListBucket", "arn:aws:s3:::bucket", func(p *probed) { p.always("list", forbidden) }},
	} {
		t.Run(c.check, func(t *testing.T) {
			probing(t, func(p *probed) {
				c.fault(p)
				report, err := p.run()
				if !errors.Is(err, s3lock.ErrInconclusive) || errors.Is(err, s3lock.ErrEndpointRefused) || report.Verdict != s3lock.Denied {
					p.Fatalf("error %v, report %+v", err, report)
				}
				f := finding(p, report, c.check)
				if f.Verdict != s3lock.Denied || f.Permission != c.permission || !strings.Contains(f.Advice, c.resource) {
					p.Errorf("%+v", f)
				}
				if !strings.Contains(err.Error(), c.permission) {
					p.Errorf("no permission in %v", err)
				}
				p.empty()
			})
		})
	}
}

func TestWhatCannotBeRemovedIsNamed(t *testing.T) {
	probing(t, func(p *probed) {
		p.always("delete", forbidden)
		report := p.good()
		if f := finding(p, report, "cleanup"); f.Verdict != s3lock.Note || f.Permission != "s3:DeleteObject" {
			p.Errorf("%+v", f)
		}
		if len(report.Left) != 7 || !strings.HasPrefix(report.Left[0], "locks/.lockstep-probe-") {
			p.Errorf("left %q", report.Left)
		}
	})
}

// Wrong keys are another matter than missing permissions.
func TestBadCredentialsAreNoMissingPermission(t *testing.T) {
	probing(t, func(p *probed) {
		p.always("", s3test.Answer(403, "SignatureDoesNotMatch"))
		report, err := p.run()
		if !errors.Is(err, s3lock.ErrInconclusive) || report.Verdict != s3lock.Unknown {
			p.Errorf("error %v, report %+v", err, report)
		}
	})
}

func TestTroubleOnTheWireIsNoFault(t *testing.T) {
	for name, trouble := range troubles {
		if name == "412 by a stale node" {
			continue // is one
		}
		t.Run(name, func(t *testing.T) {
			probing(t, func(p *probed) {
				var n atomic.Int64
				for _, op := range []string{"put", "get"} {
					p.always(op, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
						if n.Add(1)%7 == 1 && !strings.Contains(r.URL.Path, "race-") {
							trouble(w, r, next)
							return
						}
						next.ServeHTTP(w, r)
					})
				}
				p.good()
				p.empty()
			})
		})
	}
}

// Some stores answer 409 to all when many write at once.
func TestARoundThatNobodyWonIsRunAgain(t *testing.T) {
	probing(t, func(p *probed) {
		for _, round := range []string{"race-0001", "race-0003"} {
			var n atomic.Int64
			p.always("put", onKey(round, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
				if n.Add(1) <= int64(p.config.Rivals) {
					next = served(s3test.Answer(409, "ConditionalRequestConflict"), next)
				}
				next.ServeHTTP(w, r)
			}))
		}
		p.good()
	})
}

func TestAStoreWhereNobodyEverWinsIsUnknown(t *testing.T) {
	probing(t, func(p *probed) {
		p.always("put", onKey("race-", s3test.Answer(409, "ConditionalRequestConflict")))
		report, err := p.run()
		if !errors.Is(err, s3lock.ErrInconclusive) || finding(p, report, "concurrent creates").Verdict != s3lock.Unknown {
			p.Errorf("error %v, report %+v", err, report)
		}
	})
}

func TestAnEndpointThatHangsCostsNoMoreThanTheTimeout(t *testing.T) {
	for _, c := range []struct {
		name string
		key  string // of the calls that hang
		okay []string
	}{
		{"from the start", "", nil},
		{"in a race", "race-0002", []string{"write access", "swap", "stale swap", "listing"}},
		{"while it removes", "DELETE", []string{"concurrent creates", "concurrent swaps", "server time"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			probing(t, func(p *probed) {
				release := make(chan struct{})
				defer close(release)
				p.always("", func(w http.ResponseWriter, r *http.Request, next http.Handler) {
					if strings.Contains(r.Method+r.URL.Path, c.key) {
						<-release
					}
					next.ServeHTTP(w, r)
				})
				p.config.Timeout = 20 * time.Second
				began := time.Now()
				report, err := p.run()
				if took := time.Since(began); took > p.config.Timeout {
					p.Errorf("took %v", took)
				}
				if removing := c.key == "DELETE"; removing != (err == nil) || !removing && !errors.Is(err, s3lock.ErrInconclusive) {
					p.Errorf("error %v", err)
				}
				if len(report.Left) == 0 {
					p.Error("nothing is said to be left")
				}
				for _, check := range c.okay {
					if f := finding(p, report, check); f.Verdict != s3lock.OK {
						p.Errorf("%+v", f)
					}
				}
			})
		})
	}
}

// What was found before the time was up is not forgotten.
func TestARefusalOutlivesTheDeadline(t *testing.T) {
	probing(t, func(p *probed) {
		release := make(chan struct{})
		defer close(release)
		p.always("put", func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			onKey("race-", s3test.Hold(release))(w, r, served(without("If-Match"), next))
		})
		if _, err := p.run(); !errors.Is(err, s3lock.ErrEndpointRefused) {
			p.Errorf("error %v", err)
		}
	})
}

func TestACancelledProbeCleansUp(t *testing.T) {
	probing(t, func(p *probed) {
		ctx, cancel := context.WithCancel(p.Context())
		defer cancel()
		p.server.Fail(s3test.Fault{Op: "put", After: 20, Do: s3test.Before(cancel)})
		_, err := s3lock.Probe(ctx, client(p, p.server), "locks/", p.config)
		if !errors.Is(err, s3lock.ErrInconclusive) {
			p.Errorf("error %v", err)
		}
		synctest.Wait()
		p.empty()
	})
}

// Case 10: no verdict depends on the client's clock, nor on where the server's
// stands.
func TestAClockThatIsOffIsOnlyNoted(t *testing.T) {
	for _, off := range []time.Duration{-time.Hour, time.Hour} {
		probing(t, func(p *probed) {
			for _, op := range []string{"get", "put", "list"} {
				p.always(op, p.withDate(func(t time.Time) time.Time { return t.Add(off) }))
			}
			report := p.good()
			if f := finding(p, report, "server time"); f.Verdict != s3lock.Note || !strings.Contains(f.Detail, "1h0m") && !strings.Contains(f.Detail, "59m59s") {
				p.Errorf("off by %v: %+v", off, f)
			}
		})
	}
}

// A step of a second is within what leases allow for.
func TestAClockThatStepsBackASecondIsOnlyNoted(t *testing.T) {
	probing(t, func(p *probed) {
		p.always("put", p.withDate(func(t time.Time) time.Time { return t.Add(2 * time.Second) }))
		if f := finding(p, p.good(), "server time"); f.Verdict != s3lock.Note {
			p.Errorf("%+v", f)
		}
	})
}

func TestArgumentsOfAProbe(t *testing.T) {
	memory := bucket.NewMemory("bucket", nil)
	for name, probe := range map[string]func() error{
		"no bucket":    func() error { _, err := s3lock.Probe(t.Context(), nil, "", s3lock.ProbeConfig{}); return err },
		"one rival":    func() error { return probeWith(t, memory, "", s3lock.ProbeConfig{Rivals: 1}) },
		"rounds":       func() error { return probeWith(t, memory, "", s3lock.ProbeConfig{Rounds: -1}) },
		"timeout":      func() error { return probeWith(t, memory, "", s3lock.ProbeConfig{Timeout: -1}) },
		"long prefix":  func() error { return probeWith(t, memory, strings.Repeat("k", 1000), s3lock.ProbeConfig{}) },
		"prefix UTF-8": func() error { return probeWith(t, memory, "\xff", s3lock.ProbeConfig{}) },
	} {
		if err := probe(); err == nil || errors.Is(err, s3lock.ErrInconclusive) || errors.Is(err, s3lock.ErrEndpointRefused) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func probeWith(t *testing.T, b s3lock.ProbeBucket, prefix string, c s3lock.ProbeConfig) error {
	_, err := s3lock.Probe(t.Context(), b, prefix, c)
	return err
}
