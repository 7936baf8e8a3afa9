package interop

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockstep-pipeline/lockstep/pkg/bucket"
	"github.com/lockstep-pipeline/lockstep/pkg/lease"
	"github.com/lockstep-pipeline/lockstep/pkg/lease/leasetest"
	"github.com/lockstep-pipeline/lockstep/pkg/s3lock"
)

var rounds = flag.Int("rounds", 20, "races of each kind in a probe")

// servers are those that docs/interop.md tells of.
var servers = []struct {
	name  string
	start func(t *testing.T) server
	// wrong is the check by which the probe has to refuse the server.
	wrong string
	// sometimes is the check that the probe refuses the server by when it is
	// lucky. Such a server may break any rule of a lock, in one run and not in
	// the next: what it breaks is told, and no failure.
	sometimes string
}{
	{name: "kumo", start: startKumo},
	{name: "versitygw", start: startVersityGW},
	{name: "localstack", start: startLocalStack},
	{name: "moto", start: startMoto, sometimes: "concurrent creates"},
	{name: "seaweedfs", start: startSeaweedFS},
	{name: "gofakes3", start: startGoFakeS3, wrong: "pinned read"},
}

func TestServers(t *testing.T) {
	for _, s := range servers {
		t.Run(s.name, func(t *testing.T) {
			running := s.start(t)
			t.Run("Probe", func(t *testing.T) { probe(t, running, s.wrong, s.sometimes) })
			t.Run("Bucket", func(t *testing.T) { deviations(t, running, s.name) })
			if s.sometimes != "" {
				t.Run("Lease", func(t *testing.T) { tell(t, running) })
				return
			}
			t.Run("Register", func(t *testing.T) { leasetest.TestRegister(t, running.register) })
			t.Run("Lock", func(t *testing.T) { leasetest.TestLock(t, running.register) })
		})
	}
}

func probe(t *testing.T, s server, wrong, sometimes string) {
	report, err := s3lock.Probe(t.Context(), s.bucket(t), "locks", s3lock.ProbeConfig{
		Timeout: 10 * time.Minute, Rounds: *rounds, List: true,
		Each: func(f s3lock.Finding) { t.Logf("%-18s %s: %s", f.Verdict, f.Check, f.Detail) },
	})
	t.Logf("%d requests in %.1f s: %v", report.Requests, report.Seconds, err)
	found := false
	for _, f := range report.Findings {
		switch {
		case f.Verdict == s3lock.OK, f.Verdict == s3lock.Note:
		case f.Verdict == s3lock.Refused && f.Check == wrong:
			found = true
		case f.Verdict == s3lock.Refused && f.Check == sometimes:
			t.Logf("caught this time: %s", f.Detail)
		case f.Verdict == s3lock.Unknown && sometimes != "" && errors.Is(err, s3lock.ErrEndpointRefused):
			// It builds on what was refused.
		default:
			t.Errorf("%s %s: %s", f.Verdict, f.Check, f.Detail)
		}
	}
	if wrong != "" && !found {
		t.Errorf("%s was not refused", wrong)
	}
}

// numbers make names that no test has used.
var numbers atomic.Int64

// bucket is a new bucket behind a client of its own.
func (s server) bucket(t *testing.T) *bucket.Bucket {
	t.Helper()
	name := fmt.Sprintf("interop-%d-%d", os.Getpid(), numbers.Add(1))
	s.create(t, name)
	return s.open(t, name)
}

func (s server) register(t *testing.T) func() lease.Register {
	t.Helper()
	name := s.bucket(t).Name()
	return func() lease.Register {
		register, err := s3lock.New(s.open(t, name), "locks/nightly.json")
		if err != nil {
			t.Fatal(err)
		}
		return register
	}
}
