package ledger

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"time"
)

const schemaVersion = 2

// Head names what the ledger consists of. The zero Head is a ledger that was
// never written to.
type Head struct {
	Schema int `json:"schema"`
	// Generation counts the swaps of the head, so that no two are alike.
	Generation int64 `json:"generation"`
	// Token is the highest fencing token seen.
	Token int64 `json:"token"`
	// Identity is what all runs of the ledger have in common; zero before the first.
	Identity Identity `json:"identity"`
	// Open are manifests whose files may be in somebody's hands: no version of them
	// counts as done before their run's commit, or the discovery of the next run.
	Open []OpenManifest `json:"open"`
	// Entries are changes of tables that are committed and not published yet; none
	// are written so far.
	Entries []json.RawMessage `json:"entries"`
	// Segments are in the order of their commits: a later one overrides.
	Segments []Segment `json:"segments"`
	// Commits are the latest, the last one at the end.
	Commits []Commitment `json:"commits"`
	// Retired are segments that were merged into others and wait for the last
	// readers of an older head.
	Retired []Retired `json:"retired"`
	// Marks are nil unless keys come in order (Selection.Lexicographic).
	Marks *Marks `json:"marks,omitempty"`
}

// Segment describes one immutable segment.
type Segment struct {
	Name  string `json:"name"`  // relative to the ledger
	Rows  int64  `json:"rows"`  // marks of vanished keys included
	Gone  int64  `json:"gone"`  // rows that are such marks
	Bytes int64  `json:"bytes"` // of the object
	First string `json:"first"` // key
	Last  string `json:"last"`  // key
}

// Commitment is what a commit came to, kept so that the same one is not done
// twice.
type Commitment struct {
	Run         string `json:"run"`
	Token       int64  `json:"token"`
	Done        int64  `json:"done"`
	Failed      int64  `json:"failed"` // to be retried
	Quarantined int64  `json:"quarantined"`
	Due         int64  `json:"due"`  // without an outcome, or made due
	Gone        int64  `json:"gone"` // keys that left the ledger
}

// Retired is a segment that the head no longer reads, and since when (the
// server's clock).
type Retired struct {
	Name  string    `json:"name"`
	Since time.Time `json:"since"`
}

// Rows counts the rows of all segments: an upper bound of the keys the ledger
// knows.
func (h Head) Rows() int64 {
	var n int64
	for _, s := range h.Segments {
		n += s.Rows
	}
	return n
}

// Bytes is the size of all segments.
func (h Head) Bytes() int64 { return bytesOf(h.Segments) }

func (h Head) commitment(run string, token int64) (Commitment, bool) {
	for _, c := range h.Commits {
		if c.Run == run && c.Token == token {
			return c, true
		}
	}
	return Commitment{}, false
}

// names are the segments that the head still needs, read or retired.
func (h Head) names() map[string]bool {
	names := map[string]bool{}
	for _, s := range h.Segments {
		names[s.Name] = true
	}
	for _, r := range h.Retired {
		names[r.Name] = true
	}
	return names
}

func encodeHead(h Head) ([]byte, error) {
	h.Schema = schemaVersion
	if h.Open == nil {
		h.Open = []OpenManifest{}
	}
	if h.Entries == nil {
		h.Entries = []json.RawMessage{}
	}
	if err := h.check(); err != nil {
		return nil, fmt.Errorf("encode ledger head: %w", err)
	}
	body, err := json.MarshalIndent(h, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encode ledger head: %w", err)
	}
	return append(body, '\n'), nil
}

// decodeHead accepts what encodeHead writes and nothing else; object names the
// head in errors.
func decodeHead(body []byte, object string) (Head, error) {
	damaged := func(reason string) (Head, error) {
		return Head{}, &DamagedError{Object: object, Reason: reason}
	}
	if len(bytes.TrimSpace(body)) == 0 {
		return damaged("it is empty")
	}
	var version struct {
		Schema *int `json:"schema"`
	}
	if err := json.Unmarshal(body, &version); err != nil {
		return damaged("it is not the JSON of a head: " + err.Error())
	}
	switch {
	case version.Schema == nil:
		return damaged("it has no schema version")
	case *version.Schema > schemaVersion:
		return Head{}, &NewerError{Object: object, Schema: *version.Schema}
	case *version.Schema < schemaVersion:
		return Head{}, outdated(body, object)
	}
	var h Head
	strict := json.NewDecoder(bytes.NewReader(body))
	strict.DisallowUnknownFields()
	if err := strict.Decode(&h); err != nil {
		return damaged(err.Error())
	}
	if err := h.check(); err != nil {
		return damaged(err.Error())
	}
	return h, nil
}

// segmentName is the generation that first wrote a segment, the fencing token of
// its writer, and its content: the same bytes from the same generation are the
// same object, and a name never comes back with another meaning.
var segmentName = regexp.MustCompile(`^segments/([0-9]{12})-([0-9]{16})-[0-9a-f]{32}\.seg$`)

func (h Head) check() error {
	if h.Generation < 1 || h.Token < 0 {
		return fmt.Errorf("generation %d or token %d is out of range", h.Generation, h.Token)
	}
	seen := map[string]bool{}
	name := func(n string) error {
		if !segmentName.MatchString(n) {
			return fmt.Errorf("segment name %q is not one of ours", n)
		}
		if seen[n] {
			return fmt.Errorf("segment %s is named twice", n)
		}
		seen[n] = true
		return nil
	}
	for _, s := range h.Segments {
		if err := name(s.Name); err != nil {
			return err
		}
		if s.Rows < 1 || s.Gone < 0 || s.Gone > s.Rows || s.Bytes < 1 || s.First == "" || s.First > s.Last {
			return fmt.Errorf("segment %s is described as %d rows, %d gone, %d bytes, keys %q to %q", s.Name, s.Rows, s.Gone, s.Bytes, s.First, s.Last)
		}
	}
	for _, r := range h.Retired {
		if err := name(r.Name); err != nil {
			return err
		}
	}
	for _, m := range h.Open {
		if m.Run == "" || m.Key == "" || m.Token < 1 || m.Token > h.Token {
			return fmt.Errorf("open manifest %+v is out of range", m)
		}
	}
	for _, c := range h.Commits {
		if c.Run == "" || c.Token < 1 || c.Token > h.Token || min(c.Done, c.Failed, c.Quarantined, c.Due, c.Gone) < 0 {
			return fmt.Errorf("commit %+v is out of range", c)
		}
	}
	return nil
}
