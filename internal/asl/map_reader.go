package asl

import (
	"errors"
	"fmt"

	"github.com/lockstep-pipeline/lockstep/internal/asl/payload"
)

// An itemReader takes the items of a distributed Map from an object in S3 that holds a JSON array.
type itemReader struct {
	parameters payload.Template
	maxItems   count
}

// A source is the object that an itemReader reads in one execution.
type source struct {
	bucket, key string
	maxItems    int64 // 0 is no limit
}

// locate finds out what to read.
func (r itemReader) locate(c *chain, input any) (s source, err error) {
	if s.bucket, s.key, err = c.location(r.parameters, input, "Key"); err != nil {
		return s, err
	}
	s.maxItems, err = r.maxItems.resolve(c, input)
	return s, err
}

// location evaluates the Parameters of a reader or a writer: a bucket, and a key or prefix.
func (c *chain) location(parameters payload.Template, input any, second string) (bucket, rest string, err error) {
	v, err := parameters.Evaluate(c.see(input))
	if err != nil {
		return "", "", err
	}
	object, _ := v.(map[string]any)
	texts := map[string]string{}
	for name, v := range object {
		text, ok := v.(string)
		if !ok {
			return "", "", c.runtime("The field '%s' is not a string: %s", name, payload.Encode(v))
		}
		texts[name] = text
	}
	return texts["Bucket"], texts[second], nil
}

// read gets the items. Its failure is the Map Run's.
func (s source) read(c *chain) ([]any, error) {
	if s.maxItems < 0 {
		return nil, fail(errorItemReader, "field MaxItems must be positive")
	}
	var body []byte
	var err error
	if stopped := c.outside(func() { body, err = c.exec.m.cfg.Objects.Get(c.scope.ctx, s.bucket, s.key) }); stopped != nil {
		return nil, stopped
	}
	switch {
	case errors.Is(err, ErrNoObject):
		return nil, fail(errorItemReader, fmt.Sprintf("The specified key does not exist: %s/%s", s.bucket, s.key))
	case err != nil:
		return nil, fail(errorItemReader, err.Error())
	}
	v, err := payload.Decode(body)
	if err != nil {
		return nil, fail(errorItemReader, fmt.Sprintf("Attempting to parse %s/%s: %v", s.bucket, s.key, err))
	}
	items, ok := v.([]any)
	if !ok {
		return nil, fail(errorItemReader, "Attempting to map over non-iterable node.")
	}
	if s.maxItems > 0 && int64(len(items)) > s.maxItems {
		items = items[:s.maxItems]
	}
	return items, nil
}
