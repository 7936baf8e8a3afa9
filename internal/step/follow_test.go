package step

import (
	"errors"
	"strings"
	"testing"
)

func TestAnOperatorSeesHowFarARunIsAndWhatItDid(t *testing.T) {
	inWorld(t, func(w *world) {
		w.upload("in/a", "x")
		o := w.operator()
		nothing := func(run string, token int64, when string) {
			t.Helper()
			p, err := o.Progress(w.Context(), run, token)
			w.ok(err)
			s, err := o.Summary(w.Context(), run, token)
			w.ok(err)
			if p != nil || s != nil {
				t.Errorf("%s: %+v, %+v", when, p, s)
			}
		}
		token := w.begin("P1")
		nothing("P1", token, "before it listed anything")
		d := w.discover("P1", token)
		p, err := o.Progress(w.Context(), "P1", token)
		w.ok(err)
		if p == nil || p.Stage != StageProcessing || p.Batches != 1 || p.BatchesDone != 0 {
			t.Errorf("after discovery: %+v", p)
		}
		nothing("P2", token, "another run")
		nothing("P1", token+1, "another attempt of the run")
		_, err = w.process("P1", token, w.batches(d)[0])
		w.ok(err)
		committed, err := w.tryCommit("P1", token, d)
		w.ok(err)
		s, err := o.Summary(w.Context(), "P1", token)
		w.ok(err)
		if s == nil || s.Done != 1 || s.Run != "P1" {
			t.Errorf("at the end: %+v", s)
		}
		equal(t, "where the summary is", o.SummaryURL("P1", token), committed.Summary)

		w.state.Fault(func(_, _ string) error { return errors.New("403 AccessDenied") }, nil)
		if s, err := o.Summary(w.Context(), "P1", token); s != nil || err == nil || !strings.Contains(err.Error(), "403 AccessDenied") {
			t.Errorf("without permission: %+v, %v", s, err)
		}
	})
}
