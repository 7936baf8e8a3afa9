package asl

import (
	"errors"
	"time"

	"github.com/lockstep-pipeline/lockstep/internal/asl/payload"
)

// passWork is a Pass state: Result, or else the effective input, is its result.
type passWork struct {
	result    any
	hasResult bool
}

func (w passWork) run(c *chain, raw any) (any, string, error) {
	effective, err := c.effective(raw)
	if err != nil {
		return nil, "", err
	}
	result, err := c.arguments(effective)
	if err != nil {
		return nil, "", err
	}
	if w.hasResult {
		result = w.result
	}
	output, err := c.merge(raw, result)
	return output, c.state.next, err
}

// succeedWork is a Succeed state.
type succeedWork struct{}

func (succeedWork) run(c *chain, raw any) (any, string, error) {
	output, err := c.through(raw)
	return output, "", err
}

// through is the data flow of states that have no result of their own: InputPath, then OutputPath.
func (c *chain) through(raw any) (any, error) {
	effective, err := c.effective(raw)
	if err != nil {
		return nil, err
	}
	return c.state.outputPath.lookup(c.see(effective))
}

// failWork is a Fail state.
type failWork struct {
	failure              FailureDetails // literals
	errorPath, causePath *payload.Expression
}

func (w failWork) run(c *chain, raw any) (any, string, error) {
	f := &failure{FailureDetails: w.failure}
	for _, from := range []struct {
		field string
		path  *payload.Expression
		to    **string
	}{{"ErrorPath", w.errorPath, &f.FailureDetails.Error}, {"CausePath", w.causePath, &f.Cause}} {
		if from.path == nil {
			continue
		}
		v, err := from.path.Evaluate(c.see(raw))
		if err != nil {
			return nil, "", err
		}
		text, ok := v.(string)
		if !ok {
			return nil, "", c.runtime("The %s '%s' does not refer to a string: %s", from.field, from.path, payload.Encode(v))
		}
		*from.to = &text
	}
	return nil, "", f
}

// longestWait is the longest that AWS lets a state wait.
const longestWait = 99999999 * time.Second

// waitWork is a Wait state; one of its fields is set.
type waitWork struct {
	seconds       *int64
	secondsPath   *payload.Reference
	timestamp     *time.Time
	timestampPath *payload.Reference
}

func (w waitWork) run(c *chain, raw any) (any, string, error) {
	effective, err := c.effective(raw)
	if err != nil {
		return nil, "", err
	}
	d, err := w.duration(c, effective)
	if err != nil {
		return nil, "", err
	}
	if d > longestWait {
		return nil, "", c.runtime("Wait state delay is too long.")
	}
	if err := c.sleep(d); err != nil {
		return nil, "", err
	}
	output, err := c.state.outputPath.lookup(c.see(effective))
	return output, c.state.next, err
}

func (w waitWork) duration(c *chain, effective any) (time.Duration, error) {
	switch {
	case w.seconds != nil:
		return time.Duration(*w.seconds) * time.Second, nil
	case w.timestamp != nil:
		return w.timestamp.Sub(c.exec.sched.now()), nil
	case w.secondsPath != nil:
		v, err := w.secondsPath.Lookup(c.see(effective))
		if err != nil {
			return 0, c.runtime("The SecondsPath parameter does not reference an input value: %s", w.secondsPath)
		}
		seconds, ok := payload.Int64(v)
		if !ok {
			return 0, c.runtime("The SecondsPath parameter cannot be parsed as a long value: %s == %s", w.secondsPath, plain(v))
		}
		if seconds < 0 {
			return 0, c.runtime("The SecondsPath parameter references a negative value: %s == %d", w.secondsPath, seconds)
		}
		return time.Duration(min(seconds, int64(longestWait/time.Second)+1)) * time.Second, nil
	}
	v, err := w.timestampPath.Lookup(c.see(effective))
	if err != nil {
		return 0, c.runtime("The TimestampPath parameter does not reference an input value: %s", w.timestampPath)
	}
	at, err := parseTimestamp(v)
	if err != nil {
		return 0, c.runtime("The TimestampPath parameter cannot be parsed as a valid timestamp: %s == %s", w.timestampPath, plain(v))
	}
	return at.Sub(c.exec.sched.now()), nil
}

// plain is a value as causes show it: a string without quotes, all else as JSON.
func plain(v any) string {
	if s, ok := v.(string); ok {
		return s
	}
	return payload.Encode(v)
}

// parseTimestamp reads the profile of RFC 3339 that the states language prescribes.
func parseTimestamp(v any) (t time.Time, err error) {
	text, ok := v.(string)
	if !ok {
		return t, errors.New("not a string")
	}
	err = t.UnmarshalText([]byte(text))
	return t, err
}
