package e2e_test

import (
	"net/http"
	"testing"

	"github.com/lockstep-pipeline/lockstep/internal/asl"
	"github.com/lockstep-pipeline/lockstep/internal/step"
	"github.com/lockstep-pipeline/lockstep/pkg/bucket/s3test"
	"github.com/lockstep-pipeline/lockstep/pkg/lease"
)

func TestARunWhoseLockWasBrokenPublishesAndCommitsNothingMore(t *testing.T) {
	w := newWorld(t, func(c *step.RunConfig) { c.Batch.MaxFiles = 1 })
	files := w.csvs("a.csv", "b.csv", "c.csv")
	publishing := w.wire.hold("process", request("put", "parquet/b.csv"))
	p1 := w.run("P1")
	w.await(publishing.reached, "b.csv to be published")
	if err := w.lock().Break(t.Context(), lease.BreakRequest{Holder: p1.ARN(), By: "ops", Reason: "test"}); err != nil {
		t.Fatal(err)
	}
	before := len(w.wire.seen("process", "put", "lake/"))
	publishing.letGo() // it was on its way; what follows is not
	w.failed(p1, "RunEndedError", "start another run")
	if after := len(w.wire.seen("process", "put", "lake/")); after != before {
		t.Errorf("P1 published %d outputs after it lost its lock", after-before)
	}
	w.same("P1 did", w.doneBy("P1"), []string{})
	w.succeed("P2")
	w.same("P2 did", w.doneBy("P2"), []string{"a.csv", "b.csv", "c.csv"})
	w.exactlyOnce(files...)
}

func TestARunThatLostItsLockMayNotCommitOverItsSuccessor(t *testing.T) {
	w := newWorld(t, nil)
	files := w.csvs("a.csv", "b.csv")
	committing := w.wire.hold("commit", request("put", "head.json"))
	p1 := w.run("P1")
	w.await(committing.reached, "P1 to commit")
	if err := w.lock().Break(t.Context(), lease.BreakRequest{Holder: p1.ARN(), By: "ops", Reason: "test"}); err != nil {
		t.Fatal(err)
	}
	w.succeed("P2")
	committing.letGo()
	w.failed(p1, "RunEndedError")
	w.same("P2 did", w.doneBy("P2"), []string{"a.csv", "b.csv"})
	w.exactlyOnce(files...)
}

func TestABrokenListingCommitsNothing(t *testing.T) {
	for _, c := range []struct {
		name      string
		breaks    s3test.Failure
		wantError string
	}{
		{"an error on the third page", s3test.Answer(http.StatusInternalServerError, "InternalError"), "TransientError"},
		{"a reply that is cut", s3test.CutReply(300), "TransientError"},
		{"a refusal", s3test.Answer(http.StatusForbidden, "AccessDenied"), "SourceUnavailableError"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, nil)
			files := w.csvs("a.csv", "b.csv", "c.csv", "d.csv", "e.csv", "f.csv", "g.csv")
			w.succeed("P1")
			w.delete(&files[6])
			before := w.ledgerRows()
			files = append(files, w.csvs("a2.csv")...)
			pages := 0
			w.wire.add(rule{function: "discover", op: "list", times: s3test.Always, do: func(reply http.ResponseWriter, r *http.Request, next http.Handler) {
				if r.URL.Query().Get("continuation-token") == "" {
					pages = 0
				}
				if pages++; pages == 3 {
					c.breaks(reply, r, smallPages(next))
					pages = 2 // a retry asks for the same page
					return
				}
				smallPages(next).ServeHTTP(reply, r)
			}})
			w.failed(w.run("P2"), c.wantError, "discover files below s3://source/incoming/")
			after := w.ledgerRows()
			if len(after) != len(before) {
				t.Errorf("the ledger had %d rows, and has %d after a broken listing", len(before), len(after))
			}
			w.same("objects of P2", w.keysOf("P2"), nil)
			w.wire.heal()
			w.succeed("P3")
			w.same("P3 did", w.doneBy("P3"), []string{"a2.csv"})
			w.exactlyOnce(files...)
		})
	}
}

// smallPages has S3 list two keys a page.
func smallPages(next http.Handler) http.Handler {
	return http.HandlerFunc(func(reply http.ResponseWriter, r *http.Request) {
		query := r.URL.Query()
		query.Set("max-keys", "2")
		r.URL.RawQuery = query.Encode()
		next.ServeHTTP(reply, r)
	})
}

func TestAReleaseThatFailsIsToldAndTheLockIsFreedLater(t *testing.T) {
	w := newWorld(t, nil)
	files := w.csvs("a.csv")
	w.wire.add(rule{function: "release", op: "put", part: "lock.json", times: s3test.Always, do: s3test.Answer(http.StatusForbidden, "AccessDenied")})
	p1 := w.run("P1")
	w.failed(p1, "StepError", "release lock s3://state/e2e/lock.json")
	if holders := w.lockStatus().Holders; len(holders) != 1 || holders[0].Owner != p1.ARN() {
		t.Errorf("the lock is held by %v, want P1 until somebody can free it", holders)
	}
	w.wire.heal()
	w.leaseRunsOut() // the status-change rule ends P1's life, and leaves its lease alone
	w.succeed("P2")
	w.exactlyOnce(files...)
}

func TestLostRepliesAreFoundOutAndNothingIsDoneTwice(t *testing.T) {
	for _, c := range []struct {
		name string
		rule rule
	}{
		{"the lock was taken", rule{function: "acquire", op: "put", part: "lock.json", do: s3test.LoseReply}},
		{"the lock was given back", rule{function: "release", op: "put", part: "lock.json", do: s3test.LoseReply}},
		{"the ledger was fenced", rule{function: "discover", op: "put", part: "head.json", do: s3test.LoseReply}},
		{"the ledger was told", rule{function: "commit", op: "put", part: "head.json", do: s3test.LoseReply}},
		{"the lock meets a conflict", rule{function: "acquire", op: "put", part: "lock.json", do: s3test.Answer(http.StatusConflict, "ConditionalRequestConflict")}},
		{"the ledger meets a conflict", rule{function: "commit", op: "put", part: "head.json", do: s3test.Answer(http.StatusConflict, "ConditionalRequestConflict")}},
		{"an output is published", rule{function: "process", op: "put", part: "lake/", do: s3test.LoseReply}},
		{"a file is cut", rule{function: "process", op: "get", part: "source/", do: s3test.CutReply(10)}},
		{"a file is throttled", rule{function: "process", op: "get", part: "source/", do: s3test.Answer(http.StatusServiceUnavailable, "SlowDown")}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, nil)
			files := w.csvs("a.csv", "b.csv")
			c.rule.times = 1
			w.wire.add(c.rule)
			p1 := w.run("P1")
			w.ended(p1, asl.StatusSucceeded)
			if out := w.output(p1); out.Committed.Done != 2 || out.Committed.Failed != 0 || len(w.grants()) != 1 {
				t.Errorf("P1 committed %+v under the tokens %v", out.Committed, w.grants())
			}
			w.exactlyOnce(files...)
		})
	}
}
