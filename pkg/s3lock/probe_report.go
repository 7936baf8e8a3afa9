package s3lock

import (
	"errors"
	"fmt"
)

// Why a Probe did not find an endpoint good.
var (
	// ErrEndpointRefused: the store breaks a rule that locks live by. Sooner or
	// later two would hold one lock, so none is taken there.
	ErrEndpointRefused = errors.New("this endpoint cannot keep a lock")
	// ErrInconclusive: a check could not be made: no permission, no answer, no
	// time. Nothing is known against the endpoint.
	ErrInconclusive = errors.New("could not find out whether this endpoint can keep a lock")
)

// Verdict is what a check came to.
type Verdict string

// The verdicts, from good to bad.
const (
	OK      Verdict = "ok"
	Note    Verdict = "note"              // good enough, and worth knowing
	Unknown Verdict = "unknown"           // could not be tried
	Denied  Verdict = "missingPermission" // not allowed to try
	Refused Verdict = "refused"           // a rule is broken
)

// A Finding is what one check came to.
type Finding struct {
	Check   string  `json:"check"`
	Verdict Verdict `json:"verdict"`
	// Detail is what was seen.
	Detail string `json:"detail"`
	// Advice is what it means and what to do about it.
	Advice string `json:"advice,omitempty"`
	// Permission is the IAM action that is missing, such as "s3:GetObject".
	Permission string `json:"permission,omitempty"`
	// Err is the failed call behind the finding, if that was it.
	Err error `json:"-"`
}

// Report is what a Probe found.
type Report struct {
	URL      string    `json:"url"`
	Verdict  Verdict   `json:"verdict"` // the worst of the findings
	Findings []Finding `json:"findings"`
	Left     []string  `json:"left,omitempty"` // keys that could not be removed
	Requests int       `json:"requests"`       // calls, without the SDK's own retries
	Seconds  float64   `json:"seconds"`        // by the local clock
}

// Err is nil for an endpoint that can keep locks, and wraps ErrEndpointRefused
// or ErrInconclusive for one that cannot, or could not be tried.
func (r Report) Err() error {
	kind := ErrInconclusive
	bad := worst(r.Findings)
	switch bad {
	case OK, Note:
		return nil
	case Refused:
		kind = ErrEndpointRefused
	}
	var first Finding
	count := 0
	for _, f := range r.Findings {
		if f.Verdict == bad {
			if count++; count == 1 {
				first = f
			}
		}
	}
	text := fmt.Sprintf("probe %s: %v: %s: %s", r.URL, kind, first.Check, first.Detail)
	if first.Advice != "" {
		text += "; " + first.Advice
	}
	if count > 1 {
		text += fmt.Sprintf("; and %d more findings (lockstep doctor shows them)", count-1)
	}
	return &probeError{text: text, kind: kind, cause: first.Err}
}

// probeError wraps the kind and, for bucket.Transient, the call that failed.
type probeError struct {
	text        string
	kind, cause error
}

func (e *probeError) Error() string { return e.text }

func (e *probeError) Unwrap() []error {
	if e.cause == nil {
		return []error{e.kind}
	}
	return []error{e.kind, e.cause}
}

func worst(findings []Finding) Verdict {
	order := []Verdict{OK, Note, Unknown, Denied, Refused}
	bad := 0
	for _, f := range findings {
		for i, v := range order {
			if f.Verdict == v {
				bad = max(bad, i)
			}
		}
	}
	return order[bad]
}
