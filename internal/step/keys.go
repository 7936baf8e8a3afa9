package step

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path"
	"regexp"
	"strconv"
	"strings"

	"github.com/lockstep-pipeline/lockstep/pkg/ledger"
	"github.com/lockstep-pipeline/lockstep/pkg/process"
)

// This file builds every S3 key that the steps use; nothing else does.
//
//	<state.prefix>lock.json                                              the lease
//	<state.prefix>ledger/<source.bucket>/…                               head and segments
//	<state.prefix>runs/<run>/<token>/manifest-<call>.json                the batches to do
//	<state.prefix>runs/<run>/<token>/discovery-<call>.json               what the listing came to
//	<state.prefix>runs/<run>/<token>/progress.json                       how far the processing is
//	<state.prefix>runs/<run>/<token>/results/<batch>/<attempt>.begun.json   an attempt began
//	<state.prefix>runs/<run>/<token>/results/<batch>/<attempt>.json      what became of its files
//	<state.prefix>runs/<run>/<token>/results/closed.json                 the commit has begun
//	<state.prefix>runs/<run>/<token>/summary.json                        the audit record
//	<state.prefix>runs/<run>/map/<Map Run>/…                             the Map's own result files, which the state machine names
//	<destination.prefix><path>.<name>                                    an output (versions "latest")
//	<destination.prefix><path>.<version>.<name>                          an output (versions "all")
//	<destination.prefix><folder>/_<file>.<version>.<name>                an aside, such as rejected rows
//
// The token is part of a run's folder because a run may take the lock more than
// once: results under an earlier token must not pass for this one's. Tokens are
// padded so that a listing shows them in order. Calls and attempts have random
// names: each object is created once, and no late call replaces what another
// one wrote.

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
	return runKeys{fmt.Sprintf("%s%s/%016d/", RunsPrefix(c), run, token)}
}

func (k runKeys) manifest(call string) string  { return k.folder + "manifest-" + call + ".json" }
func (k runKeys) discovery(call string) string { return k.folder + "discovery-" + call + ".json" }
func (k runKeys) progress() string             { return k.folder + "progress.json" }
func (k runKeys) results() string              { return k.folder + "results/" }
func (k runKeys) summary() string              { return k.folder + "summary.json" }

// batch is the folder of the results of one batch.
func (k runKeys) batch(number int) string { return fmt.Sprintf("%s%08d/", k.results(), number) }

func (k runKeys) begun(batch int, attempt string) string {
	return k.batch(batch) + attempt + begunSuffix
}
func (k runKeys) result(batch int, attempt string) string {
	return k.batch(batch) + attempt + ".json"
}

// closed is the mark that the commit has begun.
func (k runKeys) closed() string { return k.results() + "closed.json" }

const begunSuffix = ".begun.json"

// newCallName returns the name of one call of a function: 16 random hex digits.
func newCallName() string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// callOf returns the name of the call that wrote a manifest.
func callOf(manifestKey string) (call string, ok bool) {
	call, isManifest := strings.CutPrefix(path.Base(manifestKey), "manifest-")
	call, isJSON := strings.CutSuffix(call, ".json")
	return call, isManifest && isJSON && call != ""
}

// attemptOf takes the key of a result object apart; false if it is none.
func (k runKeys) attemptOf(key string) (a attemptName, ok bool) {
	rest, below := strings.CutPrefix(key, k.results())
	number, name, nested := strings.Cut(rest, "/")
	batch, err := strconv.Atoi(number)
	if !below || !nested || err != nil || batch < 0 {
		return attemptName{}, false
	}
	if attempt, begun := strings.CutSuffix(name, begunSuffix); begun {
		return attemptName{batch: batch, attempt: attempt, begun: true}, true
	}
	attempt, isResult := strings.CutSuffix(name, ".json")
	return attemptName{batch: batch, attempt: attempt}, isResult
}

// attemptName is what the key of a result object says.
type attemptName struct {
	batch   int
	attempt string
	begun   bool // the mark that the attempt began, and not its result
}

// recordKey is a key of a run's records taken apart.
type recordKey struct {
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

// parseRecord takes the key of a record apart; false if it is none.
func parseRecord(c RunConfig, key string) (r recordKey, ok bool) {
	parts := strings.SplitN(strings.TrimPrefix(key, RunsPrefix(c)), "/", 3)
	if len(parts) < 3 {
		return r, false
	}
	token, err := strconv.ParseInt(parts[1], 10, 64)
	r = recordKey{run: parts[0], token: token, name: parts[2]}
	return r, err == nil && token > 0 && strings.HasPrefix(key, keysOf(c, r.run, r.token).folder)
}

// after is a string behind all that the folder has below a name, and before
// the names that follow: "0" is what comes after "/".
func (k runKeys) after(name string) string { return k.folder + name + "0" }

// maxKeyBytes is S3's limit on a key. Source: S3 user guide, "Naming objects".
const maxKeyBytes = 1024

// isAside reports whether an output of that name is kept beside the visible
// ones, under a key that query engines over the prefix skip.
func isAside(name string) bool { return strings.HasPrefix(name, "_") }

// outputKey is where an output of one file goes. An aside, whose name begins
// with an underscore, and an output where all versions are kept have the version
// in their key; a visible output of the latest version has the name of its source.
func outputKey(c RunConfig, f ledger.File, name string) (string, error) {
	folder, base := path.Split(strings.TrimPrefix(f.Key, c.Source.Prefix))
	key := c.Destination.Prefix + folder
	switch {
	case isAside(name):
		key += "_" + base + "." + versionName(f.ETag) + "." + strings.TrimPrefix(name, "_")
	case c.Destination.Versions == VersionsAll:
		key += base + "." + versionName(f.ETag) + "." + name
	default:
		key += base + "." + name
	}
	if len(key) > maxKeyBytes {
		return "", fmt.Errorf("%w: the key of its output would have %d bytes, S3 takes %d; shorten destination.prefix or the file's name", process.ErrUnsupported, len(key), maxKeyBytes)
	}
	return key, nil
}

// versionName stands for a version in a key: 12 hex digits.
func versionName(etag string) string {
	sum := sha256.Sum256([]byte(etag))
	return hex.EncodeToString(sum[:6])
}

// formerOutput is what the keys of outputs looked like before they carried
// metadata: the version stood before the name, whatever was asked for.
var formerOutput = regexp.MustCompile(`\.[0-9a-f]{12}\.(parquet|rejected\.ndjson)$`)
