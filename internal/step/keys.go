package step

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path"
	"strconv"
	"strings"

	"github.com/lockstep-pipeline/lockstep/pkg/ledger"
)

// This file builds every S3 key that the steps use; nothing else does.
//
//	<state.prefix>lock.json                                    the lease
//	<state.prefix>ledger/<source.bucket>/…                     head and segments
//	<state.prefix>runs/<run>/<token>/manifest.json             the batches to do
//	<state.prefix>runs/<run>/<token>/discovery.json            what the listing came to
//	<state.prefix>runs/<run>/<token>/progress.json             how far the processing is
//	<state.prefix>runs/<run>/<token>/results/<batch>.json      what became of each
//	<state.prefix>runs/<run>/<token>/summary.json              the audit record
//	<state.prefix>runs/<run>/map/<Map Run>/…                   the Map's own result files, which the state machine names
//	<destination.prefix><path>.<version>.parquet               an output
//	<destination.prefix><folder>/_<file>.<version>.rejected.ndjson
//
// The token is part of a run's folder because a redriven execution keeps its
// name: results of an earlier attempt must not pass for this one's. Tokens are
// padded so that a listing shows attempts in order.

// LockKey is the key of the pipeline's lock in its state bucket.
func LockKey(c RunConfig) string { return c.State.Prefix + "lock.json" }

// LedgerPrefix is the folder of the ledger in the state bucket. It names the
// source bucket: a ledger takes a key that is not listed for gone, so it must
// be of one bucket.
func LedgerPrefix(c RunConfig) string { return c.State.Prefix + "ledger/" + c.Source.Bucket + "/" }

// RunsPrefix is the folder of the runs' records in the state bucket.
func RunsPrefix(c RunConfig) string { return c.State.Prefix + "runs/" }

// Substitutions are what the definition of a pipeline's state machine has to
// have in place of ${…}, besides the ARNs of its functions. The Map's
// ResultWriter has no path to them in its input: see decision 21.
func Substitutions(c RunConfig) map[string]string {
	return map[string]string{"StateBucket": c.State.Bucket, "RunsPrefix": RunsPrefix(c)}
}

// runKeys are the keys of one run at one fencing token.
type runKeys struct{ folder string }

func keysOf(c RunConfig, run string, token int64) runKeys {
	return runKeys{fmt.Sprintf("%s%s/%012d/", RunsPrefix(c), run, token)}
}

func (k runKeys) manifest() string        { return k.folder + "manifest.json" }
func (k runKeys) discovery() string       { return k.folder + "discovery.json" }
func (k runKeys) progress() string        { return k.folder + "progress.json" }
func (k runKeys) results() string         { return k.folder + "results/" }
func (k runKeys) summary() string         { return k.folder + "summary.json" }
func (k runKeys) result(batch int) string { return fmt.Sprintf("%s%08d.json", k.results(), batch) }

// attemptKey is a key of a run's records taken apart.
type attemptKey struct {
	run   string
	token int64
	name  string // below the folder
}

// recordsPrefix is where the records of one run are, or of all.
func recordsPrefix(c RunConfig, run string) string {
	if run == "" {
		return RunsPrefix(c)
	}
	return RunsPrefix(c) + run + "/"
}

// parseAttempt takes the key of a record apart; false if it is none.
func parseAttempt(c RunConfig, key string) (a attemptKey, ok bool) {
	parts := strings.SplitN(strings.TrimPrefix(key, RunsPrefix(c)), "/", 3)
	if len(parts) < 3 {
		return a, false
	}
	token, err := strconv.ParseInt(parts[1], 10, 64)
	a = attemptKey{run: parts[0], token: token, name: parts[2]}
	return a, err == nil && token > 0 && strings.HasPrefix(key, keysOf(c, a.run, a.token).folder)
}

// after is a string behind all that the folder has below a name, and before
// the names that follow: "0" is what comes after "/".
func (k runKeys) after(name string) string { return k.folder + name + "0" }

// maxKeyBytes is S3's limit on a key. Source: S3 user guide, "Naming objects".
const maxKeyBytes = 1024

// outputKey is where an output of one file at one version goes: a function of
// these alone, so that a retry or a zombie writes the same object again. A
// name that does not end in "parquet" is an aside (rejected rows) and begins
// with an underscore, which query engines over the prefix skip.
func outputKey(c RunConfig, f ledger.File, name string) (string, error) {
	stem, aside := outputStems(c, f)
	if !strings.HasSuffix(name, "parquet") {
		stem = aside
	}
	key := stem + name
	if len(key) > maxKeyBytes {
		return "", fmt.Errorf("the key of its output would have %d bytes, S3 takes %d; shorten destination.prefix or the file's name", len(key), maxKeyBytes)
	}
	return key, nil
}

// outputStems are what the keys of a file's outputs and of its asides begin
// with, and no others do.
func outputStems(c RunConfig, f ledger.File) (outputs, asides string) {
	folder, base := path.Split(strings.TrimPrefix(f.Key, c.Source.Prefix))
	version := sha256.Sum256([]byte(f.ETag))
	end := base + "." + hex.EncodeToString(version[:6]) + "."
	return c.Destination.Prefix + folder + end, c.Destination.Prefix + folder + "_" + end
}
