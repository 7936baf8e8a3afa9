package step

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"path"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/lockstep-pipeline/lockstep/pkg/bucket"
	"github.com/lockstep-pipeline/lockstep/pkg/lease"
	"github.com/lockstep-pipeline/lockstep/pkg/ledger"
	"github.com/lockstep-pipeline/lockstep/pkg/process"
	"github.com/lockstep-pipeline/lockstep/pkg/s3lock"
)

// oracle knows what happened, and holds the outcome against it: a visible output
// is right if and only if it is whole, of a version that a run listed, under a
// token that was granted, and not older than the file's last done row; once the
// pipeline is quiet, its source version is the row's. What the ledger calls done
// is there. No file counts a failed attempt but by its own fault. No lock passes
// while a call of the run that held it can publish, and no life has it twice.
type oracle struct {
	omu        sync.Mutex
	violations []string

	contents map[string]string         // version (key and ETag) → content, of all that ever existed
	past     map[string][]string       // key → contents it had
	grants   map[int64]bool            // tokens
	given    map[int64]map[string]bool // token → versions that its run listed
	shown    map[string]int64          // key in the lake → token of its output, when it was last seen
	refused  map[string]bool           // source keys that the weather once kept from being read
	excused  map[string]bool           // versions whose call died with them alone
	excusedT map[int64]bool            // tokens that an operator took away while they may have been in use
	leaseEnd map[int64]time.Time       // token → when its lease ends by itself, as last seen
	owners   map[int64]string          // token → owner, as seen in the lock
	livesEnd map[string]time.Time      // owner → when its end was acknowledged
	begunBy  map[*call]bool            // processing calls that left their mark
}

func newOracle() oracle {
	return oracle{
		contents: map[string]string{}, past: map[string][]string{}, grants: map[int64]bool{}, given: map[int64]map[string]bool{},
		shown: map[string]int64{}, refused: map[string]bool{}, excused: map[string]bool{}, excusedT: map[int64]bool{}, leaseEnd: map[int64]time.Time{},
		owners: map[int64]string{}, livesEnd: map[string]time.Time{}, begunBy: map[*call]bool{},
	}
}

func (o *oracle) violated(format string, args ...any) {
	o.omu.Lock()
	defer o.omu.Unlock()
	if len(o.violations) < 10 {
		o.violations = append(o.violations, fmt.Sprintf(format, args...))
	}
}

func (o *oracle) granted(token int64) {
	o.omu.Lock()
	defer o.omu.Unlock()
	o.grants[token] = true
}

func (o *oracle) listed(token int64, batches []Batch) {
	o.omu.Lock()
	defer o.omu.Unlock()
	if o.given[token] == nil {
		o.given[token] = map[string]bool{}
	}
	for _, b := range batches {
		for _, f := range b.Files {
			o.given[token][f.Key+f.ETag] = true
		}
	}
}

func (o *oracle) excuse(f ledger.Candidate) {
	o.omu.Lock()
	defer o.omu.Unlock()
	o.excused[f.Key+f.ETag] = true
}

func (o *oracle) refuse(key string) {
	o.omu.Lock()
	defer o.omu.Unlock()
	o.refused[key] = true
}

func (o *oracle) wasRefused(key string) bool {
	o.omu.Lock()
	defer o.omu.Unlock()
	return o.refused[key]
}

func (o *oracle) excuseToken(token int64) {
	o.omu.Lock()
	defer o.omu.Unlock()
	o.excusedT[token] = true
}

// excuseAllTokens is for a lock that was deleted: nobody knows any more who held
// it, and which lives have ended.
func (o *oracle) excuseAllTokens() {
	o.omu.Lock()
	defer o.omu.Unlock()
	for token := range o.leaseEnd {
		o.excusedT[token] = true
	}
	for token := range o.grants {
		o.excusedT[token] = true
	}
	clear(o.livesEnd)
}

// lifeEnded records that the end of a life was acknowledged.
func (o *oracle) lifeEnded(owner string) {
	o.omu.Lock()
	defer o.omu.Unlock()
	if _, known := o.livesEnd[owner]; !known {
		o.livesEnd[owner] = time.Now()
	}
}

// lockWritten looks at each lock document that a call wrote.
func (d *drill) lockWritten(body []byte) {
	var doc struct {
		Holders []struct {
			Owner string `json:"owner"`
			Token int64  `json:"token"`
		} `json:"holders"`
	}
	if json.Unmarshal(body, &doc) != nil {
		return
	}
	d.omu.Lock()
	defer d.omu.Unlock()
	for _, h := range doc.Holders {
		if _, known := d.owners[h.Token]; known {
			continue
		}
		d.owners[h.Token] = h.Owner
		if at, over := d.livesEnd[h.Owner]; over && time.Since(at) < 19*time.Minute {
			d.violations = append(d.violations, fmt.Sprintf("%s got token %d %v after its life had ended", h.Owner, h.Token, time.Since(at)))
		}
		for c := range d.begunBy {
			if c.token == h.Token || c.hasEnded() || c.isDead() || d.excusedT[c.token] {
				continue
			}
			if end := d.leaseEnd[c.token]; time.Now().Before(end) {
				d.violations = append(d.violations, fmt.Sprintf("token %d was granted while a processing call under token %d was at work, whose lease ends in %v", h.Token, c.token, time.Until(end)))
			}
		}
	}
}

// publishedBy looks at each output that a call wrote.
func (d *drill) publishedBy(_ *call, key string, o bucket.PutOptions) {
	token, _ := strconv.ParseInt(o.Metadata[metaToken], 10, 64)
	d.omu.Lock()
	defer d.omu.Unlock()
	if !d.grants[token] && d.owners[token] == "" {
		d.violations = append(d.violations, fmt.Sprintf("%s was published under token %d, which nobody was granted", key, token))
	}
}

// begun records that a call left its mark.
func (d *drill) begun(c *call) {
	d.omu.Lock()
	defer d.omu.Unlock()
	d.begunBy[c] = true
}

func (d *drill) openLock() *lease.Lock {
	register, err := s3lock.New(d.state, LockKey(d.parsed()))
	d.ok(err)
	lock, err := lease.New(register, lease.Config{})
	d.ok(err)
	return lock
}

// sourceOf is the source file that a visible output is of, and whether its key
// has the version.
func (d *drill) sourceOf(lakeKey string) string {
	name := strings.TrimSuffix(strings.TrimPrefix(lakeKey, "out/"), "."+process.OutputName)
	if d.parsed().Destination.Versions == VersionsAll {
		name = strings.TrimSuffix(name, path.Ext(name))
	}
	return "in/" + name
}

// look holds the ledger and every output against what happened.
func (d *drill) look() {
	status, err := d.openLock().Inspect(context.Background())
	d.ok(err)
	d.omu.Lock()
	for _, h := range status.Holders {
		d.leaseEnd[h.Token] = h.Expires
	}
	d.omu.Unlock()
	rows := d.rows()
	gotThrough := map[string]bool{} // runs in which a file was done
	for _, row := range rows {
		gotThrough[row.Run] = gotThrough[row.Run] || row.Outcome == ledger.Done
	}
	for key, row := range rows {
		// What reads of a run's first files and refuses its last ones looks like a
		// refusal of these: it costs them an attempt, and the summary says why.
		if row.Attempts > 0 && d.wasRefused(key) && gotThrough[row.Run] {
			d.excuse(ledger.Candidate{File: ledger.File{Key: key, ETag: row.ETag}})
		}
		d.lookAtRow(key, row)
	}
	latest := d.parsed().Destination.Versions == VersionsLatest
	there := map[string]bool{}
	for _, key := range d.keys(d.lake, "") {
		if isAside(path.Base(key)) {
			continue
		}
		source := d.sourceOf(key)
		object, err := d.lake.Get(context.Background(), key, bucket.Condition{})
		d.ok(err)
		p := d.lookAtOutput(key, source, object)
		if latest {
			there[source] = true
			row, known := rows[source]
			switch {
			case !known || row.Outcome != ledger.Done || row.Published == (ledger.Published{}):
			case p.token < row.Published.Token:
				d.violated("%s shows token %d, and the ledger has it done under token %d", key, p.token, row.Published.Token)
			case p.token == row.Published.Token && p.etag() != row.Published.ETag:
				d.violated("%s shows %s, and the ledger has %s done under the same token", key, p.etag(), row.Published.ETag)
			}
		} else {
			there[source+p.etag()] = true
		}
	}
	for key, row := range rows {
		if row.Outcome != ledger.Done || row.Published == (ledger.Published{}) {
			continue
		}
		if latest && !there[key] || !latest && !there[key+row.Published.ETag] {
			d.violated("%s is done, and its output is not there", key)
		}
	}
}

func (d *drill) lookAtRow(key string, row ledger.Row) {
	content := d.contents[key+row.ETag]
	switch {
	case row.Outcome == ledger.Done:
		d.note("done")
		if strings.Contains(content, "poison") || strings.Contains(content, "crash") {
			d.violated("%s is done, and its content is %q", key, content)
		}
		return
	case row.Suspect:
		d.note("suspect")
	case row.Outcome == ledger.Quarantined:
		d.note("quarantined")
	}
	own := strings.Contains(content, "poison") || strings.Contains(content, "crash")
	if row.Attempts > 0 && !own && !d.excused[key+row.ETag] {
		d.violated("%s at %s is blamed: %+v, and its content is %q", key, row.ETag, row, content)
	}
}

func (d *drill) lookAtOutput(key, source string, object *bucket.Object) published {
	body := string(readAll(object.Body))
	p, ok := readMetadata(object.Metadata)
	if !ok {
		d.violated("%s has the metadata %v", key, object.Metadata)
		return p
	}
	content, existed := d.contents[source+p.etag()]
	switch want := rendered(content, p.token); {
	case !existed:
		d.violated("%s is of %s at %s, which never was", key, source, p.etag())
	case body != want:
		d.violated("%s is %q, want %q", key, body, want)
	case !d.given[p.token][source+p.etag()]:
		d.violated("%s is of %s at %s, which no run listed under token %d", key, source, p.etag(), p.token)
	case p.token < d.shown[key]:
		d.violated("%s shows token %d after it showed %d", key, p.token, d.shown[key])
	}
	d.shown[key] = p.token
	return p
}

// rendered is what the processor makes of a content.
func rendered(content string, token int64) string {
	return strings.ToUpper(content) + fmt.Sprintf("\n#%d", token)
}

func readAll(r io.Reader) []byte {
	content, err := io.ReadAll(r)
	if err != nil {
		return nil
	}
	if content == nil {
		content = []byte{}
	}
	return content
}

// lookAtRest is for a pipeline that has nothing left to do.
func (d *drill) lookAtRest() {
	rows, files := d.rows(), d.keys(d.source, "in/")
	shows := map[string]string{}
	for _, key := range d.keys(d.lake, "") {
		object, err := d.lake.Head(context.Background(), key)
		d.ok(err)
		p, _ := readMetadata(object.Metadata)
		shows[key] = p.etag()
	}
	for _, key := range files {
		content := string(d.read(d.source, key))
		row := rows[key]
		crashes := strings.Contains(content, "crash")
		switch {
		case crashes && row.Outcome == ledger.Due: // nothing else got through beside it
			continue
		case row.ETag != d.etag(content):
			d.violated("%s is lost: its content is %q, and the ledger has %+v", key, content, row)
			continue
		case strings.Contains(content, "poison"), crashes:
			if row.Outcome != ledger.Quarantined {
				d.violated("%s is %s, and its content is %q", key, row.Outcome, content)
			}
			continue
		case row.Outcome == ledger.Quarantined && d.excused[key+row.ETag]:
			continue
		case row.Outcome != ledger.Done:
			d.violated("%s is %s when all is quiet", key, row.Outcome)
			continue
		}
		output, err := outputKey(d.parsed(), ledger.File{Key: key, ETag: row.ETag}, process.OutputName)
		d.ok(err)
		etag, visible := shows[output]
		switch {
		case content == "" && d.parsed().Destination.Versions == VersionsAll: // nothing is made of nothing
		case row.Published == (ledger.Published{}) && content == "":
			// Where nothing was published nothing stands in the way of a call that
			// stood still: see publish.go.
		case !visible:
			d.violated("%s is done, and has no output", key)
		case etag != row.ETag:
			d.violated("%s shows version %s (%q) of %s, whose version %s (%q) is done", output, etag, d.contents[key+etag], key, row.ETag, content)
		}
	}
	if len(rows) != len(files) {
		d.violated("the ledger has %d keys of %d files", len(rows), len(files))
	}
}

// The files, and what becomes of them.

func (d *drill) anyKey() string { return fmt.Sprintf("in/%02d", d.rand.IntN(20)) }

func (d *drill) changeFiles() {
	for range max(0, d.rand.IntN(8)-5) {
		key := d.anyKey()
		past := d.past[key]
		_, err := d.source.Head(context.Background(), key)
		exists := err == nil
		switch {
		case exists && d.chance(15):
			d.note("vanished")
			d.ok(d.source.Delete(context.Background(), key))
		case len(past) > 0 && d.chance(35):
			if exists {
				d.note("gone back")
			} else {
				d.note("returned")
			}
			d.put(key, past[d.rand.IntN(len(past))])
		default:
			if exists {
				d.note("overwritten")
			}
			d.overwrite(key)
		}
	}
}

func (d *drill) overwrite(key string) {
	d.omu.Lock()
	d.version++
	content := fmt.Sprintf("v%d", d.version)
	d.omu.Unlock()
	switch n := d.rand.IntN(100); {
	case n < 8:
		content += " poison"
	case n < 11:
		content += " crash"
	case n < 16:
		content = ""
	}
	d.put(key, content)
}

func (d *drill) put(key, content string) {
	written, err := d.source.Put(context.Background(), key, strings.NewReader(content), "", bucket.Condition{})
	d.ok(err)
	d.omu.Lock()
	defer d.omu.Unlock()
	d.contents[key+written.ETag] = content
	d.past[key] = append(d.past[key], content)
	if d.rand.IntN(100) < 30 { // late, or of the same second as others
		d.source.SetLastModified(key, d.source.Now().Add(-time.Duration(d.rand.IntN(3))*time.Hour).Truncate(time.Hour))
	}
}
