package step

import (
	"errors"
	"testing"

	"github.com/lockstep-pipeline/lockstep/pkg/bucket"
	"github.com/lockstep-pipeline/lockstep/pkg/bucket/s3test"
	"github.com/lockstep-pipeline/lockstep/pkg/ledger"
)

// wire puts a bucket of the world behind a real SDK client and real HTTP.
func (w *world) wire(memory *bucket.Memory) *s3test.Server {
	w.Helper()
	server := s3test.New(w, memory)
	over, err := bucket.New(server.Client(), memory.Name(), bucket.Options{})
	w.ok(err)
	stores := []Store{over}
	for _, m := range []*bucket.Memory{w.source, w.lake, w.state} {
		if m != memory {
			stores = append(stores, m)
		}
	}
	w.open(stores...)
	return server
}

func (w *world) wantTransient(err error) {
	w.Helper()
	var transient *TransientError
	if !errors.As(Translate(err), &transient) {
		w.Errorf("%T: %v", Translate(err), err)
	}
}

// CASES 32: throttling blames no file, puts the batch off, and harms no other
// file of it; nothing is counted when it lasts.
func TestThrottlingIsNoFailureOfTheFile(t *testing.T) {
	inWorld(t, func(w *world) {
		token, batch := w.onlyBatch("in/a", "a", "in/b", "b")
		w.wire(w.source).Fail(s3test.Fault{Op: "get", Key: "in/a", Times: s3test.Always, Do: s3test.Answer(503, "SlowDown")})
		_, err := w.process("P1", token, batch)
		w.wantTransient(err)
		result := w.result("P1", token, 0)
		equalLists(t, "outcomes", outcomes(result), []string{"in/a deferred", "in/b done"})
		if result.Files[0].Error == "" {
			t.Error("the record does not say what put the file off")
		}
		w.wantOutputs(map[string]string{"in/b": "b"})
	})
}

// The same through a whole run: done what could be, no attempt counted, and the
// next run takes the rest; with nothing done at all, the run fails loudly.
func TestARunInThrottlingCountsNoAttempts(t *testing.T) {
	inWorld(t, func(w *world) {
		w.set("failure.maxFailedFraction", 0.5)
		w.upload("in/a", "a")
		w.upload("in/b", "b")
		server := w.wire(w.source)
		server.Fail(s3test.Fault{Op: "get", Key: "in/a", Times: s3test.Always, Do: s3test.Answer(503, "SlowDown")})
		out, err := w.run("P1")
		w.ok(err)
		equal(t, "done", out.Done, 1)
		equal(t, "deferred", out.Deferred, 1)
		equal(t, "failed", out.Failed, 0)
		equal(t, "outcome", w.rows()["in/a"].Outcome, ledger.Due)
		_, err = w.run("P2")
		if !errors.As(err, new(*ThrottledError)) {
			t.Errorf("%v", err)
		}
		server.Heal()
		out, err = w.run("P3")
		w.ok(err)
		equal(t, "done", out.Done, 1)
		equal(t, "attempts", w.rows()["in/a"].Attempts, 0)
	})
}

// CASES 35's neighbour: a cut connection is not a cut file, even to a processor
// that blames the file.
func TestACutConnectionIsNotAMalformedFile(t *testing.T) {
	for name, cut := range map[string]s3test.Failure{"broken": s3test.CutReply(3), "short": s3test.ShortReply(3)} {
		inWorld(t, func(w *world) {
			token, batch := w.onlyBatch("in/a", "0123456789", "in/b", "b")
			server := w.wire(w.source)
			server.Fail(s3test.Fault{Op: "get", Key: "in/a", Times: s3test.Always, Do: cut})
			_, err := w.process("P1", token, batch)
			w.wantTransient(err)
			equalLists(t, name+": outcomes", outcomes(w.result("P1", token, 0)), []string{"in/a deferred", "in/b done"})
			w.wantOutputs(map[string]string{"in/b": "b"})
			server.Heal()
			_, err = w.process("P1", token, batch)
			w.ok(err)
			w.wantOutputs(map[string]string{"in/a": "0123456789", "in/b": "b"})
		})
	}
}

func TestADestinationInTroubleIsTransient(t *testing.T) {
	inWorld(t, func(w *world) {
		token, batch := w.onlyBatch("in/a", "a", "in/b", "b")
		server := w.wire(w.lake)
		server.Fail(s3test.Fault{Op: "put", Key: "out/a.parquet", Times: s3test.Always, Do: s3test.Answer(500, "InternalError")})
		_, err := w.process("P1", token, batch)
		w.wantTransient(err)
		equalLists(t, "outcomes", outcomes(w.result("P1", token, 0)), []string{"in/a deferred", "in/b done"})
	})
}

func TestALostReplyOfAnOutputIsRepeatedUnderTheSameKey(t *testing.T) {
	inWorld(t, func(w *world) {
		token, batch := w.onlyBatch("in/a", "a")
		w.wire(w.lake).Fail(s3test.Fault{Op: "put", Do: s3test.LoseReply})
		out, err := w.process("P1", token, batch)
		w.ok(err)
		equal(t, "answer", out, ProcessOutput{Done: 1})
		w.wantOutputs(map[string]string{"in/a": "a"})
	})
}

// Trouble with the records of a run is transient too: none of it may be taken
// for a batch that left no result, or for damage.
func TestRecordsCutOnTheWireAreTransient(t *testing.T) {
	for _, record := range []string{"manifest-", "discovery-", "results/00000000/"} {
		for name, cut := range map[string]s3test.Failure{"broken": s3test.CutReply(5), "short": s3test.ShortReply(5), "refused": s3test.Answer(503, "SlowDown")} {
			inWorld(t, func(w *world) {
				w.upload("in/a", "a")
				token := w.begin("P1")
				d := w.discover("P1", token)
				w.processAll("P1", token, d)
				server := w.wire(w.state)
				for _, key := range w.keys(w.state, "lockstep/runs/P1/0000000000000001/"+record) {
					server.Fail(s3test.Fault{Op: "get", Key: key, Times: s3test.Always, Do: cut})
				}
				_, err := w.tryCommit("P1", token, d)
				w.wantTransient(err)
				equal(t, record+" "+name+": rows in the ledger", len(w.rows()), 0)
				server.Heal()
				equal(t, "done", w.commit("P1", token, d).Done, 1)
			})
		}
	}
}
