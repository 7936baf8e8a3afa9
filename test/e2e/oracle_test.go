package e2e_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/parquet-go/parquet-go"

	"github.com/lockstep-pipeline/lockstep/internal/step"
	"github.com/lockstep-pipeline/lockstep/pkg/lease"
	"github.com/lockstep-pipeline/lockstep/pkg/ledger"
	"github.com/lockstep-pipeline/lockstep/pkg/s3lock"
)

// exactlyOnce is the oracle: these versions and no others were done, each by
// one committed run; each file has one output, with the rows of its last
// version and the token of the run that did it; the ledger is sound
// and knows the last version of each key as done; the lock is free and was
// held by one at a time, with growing tokens.
func (w *world) exactlyOnce(files ...file) {
	w.t.Helper()
	state := w.objects(w.state)
	done := w.committed(state)
	lake := w.objects(w.lake)
	outputs := map[string]bool{}
	last := map[string]file{}
	for _, f := range files {
		last[f.key] = f
	}
	for _, f := range files {
		results := done[f.key+" "+f.etag]
		delete(done, f.key+" "+f.etag)
		if len(results) != 1 {
			w.t.Errorf("%q at %s was done %d times, want once", f.key, f.etag, len(results))
			continue
		}
		if f.bare && len(results[0].Outputs) == 0 {
			continue
		}
		output := w.tableOf(f, results[0].Outputs)
		outputs[output] = true
		if last[f.key].etag == f.etag {
			w.holds(output, lake[output], f)
		}
	}
	for version := range done {
		w.t.Errorf("%q was done, which nobody expected", version)
	}
	for key := range lake {
		if strings.HasSuffix(key, ".parquet") && strings.HasPrefix(key, w.config.Destination.Prefix) && !outputs[key] {
			w.t.Errorf("output %q belongs to no file that was done", key)
		}
	}
	rows := w.ledgerRows()
	for key, f := range last {
		r, known := rows[key]
		switch {
		case f.gone && known:
			w.t.Errorf("the ledger keeps %+v of a file that is gone", r)
		case !f.gone && (strings.Trim(r.ETag, `"`) != f.etag || r.Outcome != ledger.Done):
			w.t.Errorf("the ledger has %+v for %q, want %s done", r, key, f.etag)
		}
	}
	w.lockIsSound()
}

// committed are the results with which runs were committed, by key and version.
func (w *world) committed(state map[string][]byte) map[string][]step.FileResult {
	w.t.Helper()
	done := map[string][]step.FileResult{}
	for _, c := range w.head().Commits {
		folder := fmt.Sprintf("/runs/%s/%016d/results/", c.Run, c.Token)
		mine := map[string]step.FileResult{} // two attempts at a batch did the same
		for key, content := range state {
			if !strings.Contains(key, folder) || strings.HasSuffix(key, ".begun.json") || strings.HasSuffix(key, "/closed.json") {
				continue
			}
			var result step.BatchResult
			w.decode(string(content), &result)
			for _, f := range result.Files {
				if f.Outcome == step.OutcomeDone {
					mine[f.Key+" "+strings.Trim(f.ETag, `"`)] = f
				}
			}
		}
		for version, f := range mine {
			done[version] = append(done[version], f)
		}
		if int64(len(mine)) != c.Done {
			w.t.Errorf("the ledger has %d done files of %s, its results have %d", c.Done, c.Run, len(mine))
		}
	}
	return done
}

// tableOf is the output among a file's that holds its rows: it is named after
// the file, where a reader of the lake looks for it.
func (w *world) tableOf(f file, outputs []string) string {
	w.t.Helper()
	want := w.config.Destination.Prefix + strings.TrimPrefix(f.key, w.config.Source.Prefix) + ".parquet"
	if !slices.Contains(outputs, want) {
		w.t.Errorf("%q has the outputs %q, and not %s", f.key, outputs, want)
	}
	return want
}

// holds checks the rows of an output.
func (w *world) holds(key string, content []byte, f file) {
	w.t.Helper()
	if content == nil {
		w.t.Errorf("%q was done, but its output %q is not there", f.key, key)
		return
	}
	table, err := parquet.OpenFile(bytes.NewReader(content), int64(len(content)))
	if err != nil {
		w.t.Errorf("output %q: %v", key, err)
		return
	}
	if table.NumRows() == 0 && len(f.rows) == 0 {
		return
	}
	rows, err := parquet.Read[row](bytes.NewReader(content), int64(len(content)))
	if err != nil || !slices.Equal(rows, f.rows) {
		w.t.Errorf("output %q holds %v (%v), want %v", key, rows, err, f.rows)
	}
}

func (w *world) ledger() *ledger.Ledger {
	w.t.Helper()
	books, err := ledger.Open(w.state, step.LedgerPrefix(w.config))
	if err != nil {
		w.t.Fatal(err)
	}
	return books
}

func (w *world) head() ledger.Head {
	w.t.Helper()
	head, err := w.ledger().Head(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	return head
}

// ledgerRows reads the whole ledger, and checks every byte of it.
func (w *world) ledgerRows() map[string]ledger.Row {
	w.t.Helper()
	books := w.ledger()
	if err := books.Verify(w.t.Context()); err != nil {
		w.t.Error(err)
	}
	rows := map[string]ledger.Row{}
	for r, err := range books.Rows(w.t.Context()) {
		if err != nil {
			w.t.Fatal(err)
		}
		rows[r.Key] = r
	}
	return rows
}

func (w *world) lock() *lease.Lock {
	w.t.Helper()
	register, err := s3lock.New(w.state, step.LockKey(w.config))
	if err != nil {
		w.t.Fatal(err)
	}
	lock, err := lease.New(register, lease.Config{})
	if err != nil {
		w.t.Fatal(err)
	}
	return lock
}

func (w *world) lockStatus() lease.Status {
	w.t.Helper()
	status, err := w.lock().Inspect(w.t.Context())
	if err != nil || status.Corrupt != "" {
		w.t.Fatal(err, status.Corrupt)
	}
	return status
}

// grants are the tokens that the lock was held under.
func (w *world) grants() (tokens []int64) {
	w.t.Helper()
	for _, event := range w.lockStatus().Events {
		if event.Kind == lease.Granted {
			tokens = append(tokens, event.Token)
		}
	}
	return tokens
}

// lockIsSound: nobody has the lock or waits for it, and by its own events one
// holder followed the other, under growing tokens.
func (w *world) lockIsSound() {
	w.t.Helper()
	status := w.lockStatus()
	if len(status.Holders) > 0 || len(status.Waiters) > 0 {
		w.t.Errorf("the lock is not free: held by %v, waited for by %v", status.Holders, status.Waiters)
	}
	held := map[int64]bool{}
	var last int64
	for _, event := range status.Events {
		switch event.Kind {
		case lease.Granted:
			if len(held) > 0 {
				w.t.Errorf("token %d was granted while %v held the lock", event.Token, slices.Collect(maps.Keys(held)))
			}
			if event.Token <= last {
				w.t.Errorf("token %d was granted after token %d", event.Token, last)
			}
			held[event.Token], last = true, event.Token
		case lease.Freed, lease.Expired, lease.Broken:
			delete(held, event.Token)
		}
	}
}

// doneBy are the keys, below the source prefix, that a run did and committed.
func (w *world) doneBy(run string) []string {
	w.t.Helper()
	keys := []string{}
	for _, r := range w.ledgerRows() {
		if r.Run == run && r.Outcome == ledger.Done {
			keys = append(keys, strings.TrimPrefix(r.Key, w.config.Source.Prefix))
		}
	}
	slices.Sort(keys)
	return keys
}

// summary is the audit record of a run.
func (w *world) summary(run string) step.Summary {
	w.t.Helper()
	var summary step.Summary
	for key, content := range w.objects(w.state) {
		if strings.Contains(key, "/runs/"+run+"/") && strings.HasSuffix(key, "/summary.json") {
			if err := json.Unmarshal(content, &summary); err != nil {
				w.t.Fatal(err)
			}
		}
	}
	if summary.Run != run {
		w.t.Fatalf("%s left no summary", run)
	}
	return summary
}

// same compares lists of keys.
func (w *world) same(what string, got, want []string) {
	w.t.Helper()
	if !slices.Equal(got, want) {
		w.t.Errorf("%s: got %q, want %q", what, got, want)
	}
}

// keysOf are the records that a run left in the state.
func (w *world) keysOf(run string) []string {
	w.t.Helper()
	return slices.DeleteFunc(w.keys(w.state), func(key string) bool { return !strings.Contains(key, "/runs/"+run+"/") })
}
