package asl

import (
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

// A retrier is an entry of Retry.
type retrier struct {
	errorEquals []string
	interval    time.Duration
	attempts    int
	backoff     float64
	maxDelay    time.Duration // 0 is none
	jitter      bool
}

// A catcher is an entry of Catch.
type catcher struct {
	errorEquals []string
	next        string
	resultPath  resultPath
}

// matches reports whether a list of error names covers the failure.
func matches(errorEquals []string, f *failure) bool {
	name := f.name()
	for _, pattern := range errorEquals {
		switch pattern {
		case errorAll:
			return true
		case errorTaskFailed:
			if name != errorTimeout {
				return true
			}
		}
		if pattern == name {
			return true
		}
	}
	return false
}

// delay is how long to wait before retry n, counted from 0.
func (r retrier) delay(n int, rnd rand.Source) time.Duration {
	seconds := r.interval.Seconds() * math.Pow(r.backoff, float64(n))
	if longest := r.maxDelay.Seconds(); r.maxDelay > 0 && seconds > longest {
		seconds = longest
	}
	seconds = min(seconds, longestWait.Seconds())
	if r.jitter {
		seconds *= rand.New(rnd).Float64()
	}
	return time.Duration(seconds * float64(time.Second))
}

// A compound state tells of its failure in an event of its own, once, after the last retry.
type compound interface {
	failed(c *chain) error
}

// retrying makes attempts until one succeeds, a failure is not retried, or its retrier is used up; then Catch is asked.
// An attempt returns the state's result; next is the state that follows this one, or the catcher.
func (c *chain) retrying(raw any, attempt func() (any, error)) (output any, next string, err error) {
	used := make([]int, len(c.state.retry))
	for {
		result, err := attempt()
		if err == nil {
			if output, err = c.finish(raw, result); err == nil {
				return output, c.state.next, nil
			}
		}
		err = c.failed(err)
		f, ok := err.(*failure)
		if !ok || f.terminal {
			return nil, "", err
		}
		i := slices.IndexFunc(c.state.retry, func(r retrier) bool { return matches(r.errorEquals, f) })
		if i < 0 || used[i] == c.state.retry[i].attempts {
			return c.catch(raw, f)
		}
		if err := c.sleep(c.state.retry[i].delay(used[i], c.exec.m.rnd)); err != nil {
			return nil, "", err
		}
		used[i]++
		if c.retries != nil {
			*c.retries++
		}
	}
}

// catch asks the catchers for a state to go on with. Nothing but the catcher's own ResultPath applies to its output.
func (c *chain) catch(raw any, f *failure) (output any, next string, err error) {
	if w, ok := c.state.work.(compound); ok {
		if err := w.failed(c); err != nil {
			return nil, "", err
		}
	}
	for _, catcher := range c.state.catch {
		if matches(catcher.errorEquals, f) {
			output, err := catcher.resultPath.insert(raw, f.caught())
			return output, catcher.next, err
		}
	}
	return nil, "", f
}
