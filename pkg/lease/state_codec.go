package lease

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// maxDocument is the size in bytes above which a document is taken for
// something else. 1,000 waiters with execution ARNs as names need a quarter.
const maxDocument = 1 << 20

func encode(d document) ([]byte, error) {
	if err := d.validate(); err != nil {
		return nil, fmt.Errorf("the document would not be readable: %w", err)
	}
	b, err := jsonv2.Marshal(d)
	if err != nil {
		return nil, fmt.Errorf("encode the document: %w", err)
	}
	b = append(b, '\n')
	if len(b) > maxDocument {
		return nil, fmt.Errorf("the document would have %d bytes, more than %d: too many waiters", len(b), maxDocument)
	}
	return b, nil
}

// decode is strict: whatever it cannot vouch for counts as held, because a
// guess that the lock is free would be the one unsafe answer.
func decode(b []byte) (document, error) {
	switch {
	case len(b) == 0:
		return document{}, errors.New("it is empty")
	case len(b) > maxDocument:
		return document{}, fmt.Errorf("it has more than %d bytes", maxDocument)
	}
	// A field that is missing leaves these marks, and validate finds them: an
	// absent lastToken read as 0 would send the tokens back to 1.
	d := document{LastToken: -1}
	if err := checkSchema(b); err != nil {
		return document{}, err
	}
	if err := jsonv2.Unmarshal(b, &d, jsonv2.RejectUnknownMembers(true)); err != nil {
		return document{}, explain(err, b)
	}
	d.Schema = schemaVersion
	if d.Ended == nil {
		d.Ended = []Mark{}
	}
	if err := d.validate(); err != nil {
		return document{}, err
	}
	return d, nil
}

// checkSchema reads the version alone, so that a document of a newer program is
// known as one whatever else is in it.
func checkSchema(b []byte) error {
	var version struct {
		Schema int `json:"schema"`
	}
	if json.Unmarshal(b, &version) != nil {
		return nil // the strict decoder says what is wrong
	}
	switch {
	case version.Schema > schemaVersion:
		return &NewerError{Schema: version.Schema}
	case version.Schema < oldestReadable:
		return fmt.Errorf("its schema is %d, and this program reads %d to %d: it is no lock", version.Schema, oldestReadable, schemaVersion)
	}
	return nil
}

// explain says what is wrong in the operator's terms.
func explain(err error, b []byte) error {
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("it is cut off after %d bytes", len(b))
	case errors.Is(err, jsontext.ErrDuplicateName):
		return fmt.Errorf("it has a name twice: %w", err)
	}
	return fmt.Errorf("it is not a lock document: %w", err)
}

func (d document) validate() error {
	switch {
	case d.Limit < 1:
		return fmt.Errorf("limit is %d", d.Limit)
	case d.LastToken < 0 || d.LastToken > maxToken-tokensAhead:
		return fmt.Errorf("lastToken is missing or not between 0 and %d", int64(maxToken-tokensAhead))
	case d.Holders == nil || d.Waiters == nil || d.Events == nil:
		return errors.New("holders, waiters or events are missing")
	case len(d.Holders) > d.Limit:
		return fmt.Errorf("%d holders where %d are allowed", len(d.Holders), d.Limit)
	case len(d.Events) > maxEvents:
		return fmt.Errorf("%d events where %d are allowed", len(d.Events), maxEvents)
	case d.Nonce == "":
		return errors.New("nonce is missing")
	}
	names, tokens := map[string]bool{}, map[int64]bool{}
	for i, h := range d.Holders {
		if err := h.validate(d.LastToken); err != nil {
			return fmt.Errorf("holders[%d]: %w", i, err)
		}
		if names[h.Owner] || tokens[h.Token] {
			return fmt.Errorf("holders[%d]: owner or token appears twice", i)
		}
		names[h.Owner], tokens[h.Token] = true, true
	}
	for i, w := range d.Waiters {
		if err := w.validate(); err != nil {
			return fmt.Errorf("waiters[%d]: %w", i, err)
		}
		if names[w.Owner] {
			return fmt.Errorf("waiters[%d]: owner appears twice", i)
		}
		if i > 0 && d.Waiters[i-1].Priority < w.Priority {
			return fmt.Errorf("waiters[%d]: out of order", i)
		}
		names[w.Owner] = true
	}
	for i, m := range d.Ended {
		if m.Owner == "" || m.Kind == "" || m.At.IsZero() {
			return fmt.Errorf("ended[%d]: owner, kind or time is missing", i)
		}
	}
	if len(d.Ended) > maxMarks {
		return fmt.Errorf("%d marks of ended lives where %d are kept", len(d.Ended), maxMarks)
	}
	for i, e := range d.Events {
		if e.Kind == "" || e.At.IsZero() || e.Token < 0 || e.Token > maxToken {
			return fmt.Errorf("events[%d]: kind, time or token is missing or impossible", i)
		}
	}
	return nil
}

func (h holder) validate(lastToken int64) error {
	switch {
	case h.Token < 1 || h.Token > lastToken:
		return fmt.Errorf("token %d is not between 1 and lastToken %d", h.Token, lastToken)
	case h.Acquired.IsZero() || h.Renewed.Before(h.Acquired):
		return errors.New("times are missing or out of order")
	case h.TTL < toMillis(minTTL) || h.TTL > toMillis(maxTTL):
		return fmt.Errorf("ttlMillis %d is not between %d and %d", h.TTL, toMillis(minTTL), toMillis(maxTTL))
	case h.Grace < toMillis(minGrace) || h.Grace > toMillis(maxTTL):
		return fmt.Errorf("graceMillis %d is not between %d and %d", h.Grace, toMillis(minGrace), toMillis(maxTTL))
	}
	return checkOwner(h.Owner)
}

func (w waiter) validate() error {
	switch {
	case w.Arrived.IsZero() || w.Seen.Before(w.Arrived):
		return errors.New("times are missing or out of order")
	case w.Poll < 1 || w.Poll > toMillis(maxPoll):
		return fmt.Errorf("pollMillis %d is not between 1 and %d", w.Poll, toMillis(maxPoll))
	}
	return checkOwner(w.Owner)
}

// maxOwner is the longest owner in bytes: twice an execution ARN.
const maxOwner = 1024

// checkOwner refuses what would not survive JSON or a terminal.
func checkOwner(owner string) error {
	switch {
	case owner == "":
		return errors.New("owner is empty; give the run's id")
	case len(owner) > maxOwner:
		return fmt.Errorf("owner has %d bytes; at most %d are kept", len(owner), maxOwner)
	case !utf8.ValidString(owner) || strings.ContainsFunc(owner, unicode.IsControl):
		return fmt.Errorf("owner %q is not printable text", owner)
	}
	return nil
}

// clip shortens text from people to what the document has room for.
func clip(s string) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if len(s) <= maxText {
		return s
	}
	cut := maxText
	for !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + "…"
}

// utc strips what a server time must not carry into the document.
func utc(t time.Time) time.Time { return t.UTC().Round(0) }
