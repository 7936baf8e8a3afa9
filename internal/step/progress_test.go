package step

import (
	"encoding/json"
	"errors"
	"testing"
	"time"
)

func (w *world) progress(run string, token int64) (p Progress) {
	w.Helper()
	w.ok(json.Unmarshal(w.read(w.state, keysOf(w.parsed(), run, token).progress()), &p))
	return p
}

func TestProgressIsCountedNowAndThen(t *testing.T) {
	inWorld(t, func(w *world) {
		w.set("batch.maxFiles", 1)
		for _, key := range []string{"in/a", "in/b", "in/c", "in/d"} {
			w.upload(key, "x")
		}
		token := w.begin("P1")
		d := w.discover("P1", token)
		p := w.progress("P1", token)
		if p.Stage != StageProcessing || p.Batches != 4 || p.Files != 4 || p.Bytes != 4 || p.BatchesDone != 0 || p.Run != "P1" || p.Token != token {
			t.Errorf("after discovery: %+v", p)
		}
		for i, want := range []int{0, 2, 2, 2} { // a count is good for a while
			if i == 1 {
				time.Sleep(progressEvery)
			}
			_, err := w.process("P1", token, w.batches(d)[i])
			w.ok(err)
			equal(t, "batches done", w.progress("P1", token).BatchesDone, want)
		}
		_, err := w.tryCommit("P1", token, d)
		w.ok(err)
		if p := w.progress("P1", token); p.Stage != StageCommitted || p.BatchesDone != 4 || !p.Updated.After(p.Started) {
			t.Errorf("in the end: %+v", p)
		}
		time.Sleep(progressEvery)
		_, _ = w.process("P1", token, w.batches(d)[0]) // a call that comes late
		if p := w.progress("P1", token); p.Stage != StageCommitted {
			t.Errorf("after a late call: %+v", p)
		}
	})
}

func TestTroubleWithProgressFailsNothing(t *testing.T) {
	inWorld(t, func(w *world) {
		w.upload("in/a", "x")
		token := w.begin("P1")
		d := w.discover("P1", token)
		key := keysOf(w.parsed(), "P1", token).progress()
		w.state.Fault(func(_, at string) error {
			if at == key {
				return errors.New("500 InternalError")
			}
			return nil
		}, nil)
		out, err := w.process("P1", token, w.batches(d)[0])
		w.ok(err)
		equal(t, "done", out.Done, 1)
		_, err = w.tryCommit("P1", token, d)
		w.ok(err)
	})
}
