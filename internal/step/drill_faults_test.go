package step

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/lockstep-pipeline/lockstep/pkg/bucket"
	"github.com/lockstep-pipeline/lockstep/pkg/process"
)

// fault is a wrong program, as it looks from outside.
type fault struct {
	// store stands between the functions and a bucket; nil changes nothing.
	store func(name string, s Store) Store
	// freesAtOnce: a lock is freed though calls may be at work.
	freesAtOnce bool
	// tokenless: outputs do not carry the token.
	tokenless bool
	// marksUnbegun: a call that never began left a mark.
	marksUnbegun bool
}

func (f fault) output(in process.File, content []byte) process.Output {
	body := rendered(string(content), in.Token)
	if f.tokenless {
		body = rendered(string(content), 0)
	}
	return process.Output{Name: process.OutputName, ContentType: "text/plain", Rows: 1, Body: strings.NewReader(body)}
}

// faults are programs that the oracle must find.
var faults = map[string]fault{
	"outputs are published without a condition": {store: on("lake", func(s Store) Store { return unconditional{s} })},
	"bodies carry no token":                     {tokenless: true},
	"the head does not name the open manifest":  {store: on("state", rewriting("/head.json", func(doc map[string]any) { doc["open"] = []any{} }))},
	"a refusal of the destination is blamed on the file": {store: on("state", rewriting("/results/", func(doc map[string]any) {
		files, _ := doc["files"].([]any)
		for _, f := range files {
			if file := f.(map[string]any); file["cause"] == string(CauseDestination) {
				file["outcome"] = string(OutcomeFailed)
			}
		}
	}))},
	"a lock is freed while a call is at work":    {freesAtOnce: true},
	"a batch that never began counts as crashed": {marksUnbegun: true},
	"a life acquires after its end":              {store: on("state", rewriting("/lock.json", func(doc map[string]any) { doc["ended"] = []any{} }))},
}

// TestTheOracleFindsWrongPrograms plays drills with each of the faults until it
// is found. Some take more than a hundred.
func TestTheOracleFindsWrongPrograms(t *testing.T) {
	most := *drillFaults
	if most == 0 {
		t.Skip("needs -drill.faults: make drill")
	}
	for name, f := range faults {
		t.Run(name, func(t *testing.T) {
			for i := range most {
				seed := rand.Uint64()
				if d := playDrill(t, seed, f); len(d.violations) > 0 {
					t.Logf("found in drill %d: %s", i+1, d.violations[0])
					return
				}
			}
			t.Errorf("not found in %d drills", most)
		})
	}
}

func on(bucketName string, wrap func(Store) Store) func(string, Store) Store {
	return func(name string, s Store) Store {
		if name == bucketName {
			return wrap(s)
		}
		return s
	}
}

// unconditional forgets the conditions of outputs.
type unconditional struct{ Store }

func (u unconditional) PutWith(ctx context.Context, key string, body io.ReadSeeker, o bucket.PutOptions) (bucket.Written, error) {
	o.Condition = bucket.Condition{}
	return u.Store.PutWith(ctx, key, body, o)
}

// rewriting changes documents whose key has part in it.
func rewriting(part string, change func(doc map[string]any)) func(Store) Store {
	return func(s Store) Store { return rewritingStore{s, part, change} }
}

type rewritingStore struct {
	Store
	part   string
	change func(map[string]any)
}

func (r rewritingStore) Put(ctx context.Context, key string, body io.ReadSeeker, contentType string, c bucket.Condition) (bucket.Written, error) {
	if !strings.Contains(key, r.part) {
		return r.Store.Put(ctx, key, body, contentType, c)
	}
	text := readAll(body)
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var doc map[string]any
	if err := decoder.Decode(&doc); err == nil {
		r.change(doc)
		if changed, err := json.Marshal(doc); err == nil {
			text = changed
		}
	}
	return r.Store.Put(ctx, key, bytes.NewReader(text), contentType, c)
}
