// Package mock answers the calls of a state machine from a file: Lambda functions by lists of answers, S3 by objects in
// memory. It serves people who try a machine out, and tests.
//
// The file is one JSON object. The key "s3" holds objects by "bucket/key"; every other key is the name of a state, the
// name of a function (the last part of its ARN) or its whole ARN, asked in this order. Its value is a list of answers,
// used in the order of the calls, the last one for all further calls; a list of one may be written without brackets.
// An answer is one of
//
//	{"return": any}
//	{"error": "Name", "cause": "text"}
//
// to which "seconds" adds how long the function takes; with "seconds" alone it returns null. A function that the file
// does not know does not exist. Unknown fields are refused.
package mock

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/lockstep-pipeline/lockstep/internal/asl"
	"github.com/lockstep-pipeline/lockstep/internal/asl/payload"
)

// World is the outside of a machine: it implements [asl.Immediate] and [asl.Objects].
type World struct {
	mu      sync.Mutex
	answers map[string][]answer
	calls   map[string]int
	objects map[string][]byte
}

// An answer is what a function replies to one call.
type answer struct {
	reply   []byte // JSON
	failure *asl.FunctionError
	took    time.Duration
}

const objectsKey = "s3"

// Load reads a file of mocks; empty text is an empty file.
func Load(text []byte) (*World, error) {
	w := &World{answers: map[string][]answer{}, calls: map[string]int{}, objects: map[string][]byte{}}
	if len(bytes.TrimSpace(text)) == 0 {
		return w, nil
	}
	v, err := payload.DecodeUnique(text)
	if err != nil {
		return nil, fmt.Errorf("mocks: %w", err)
	}
	file, ok := v.(map[string]any)
	if !ok {
		return nil, errors.New("mocks: the file must be a JSON object")
	}
	for _, key := range slices.Sorted(maps.Keys(file)) {
		if key == objectsKey {
			err = w.addObjects(file[key])
		} else {
			w.answers[key], err = answers(key, file[key])
		}
		if err != nil {
			return nil, fmt.Errorf("mocks: %w", err)
		}
	}
	return w, nil
}

func (w *World) addObjects(v any) error {
	objects, ok := v.(map[string]any)
	if !ok {
		return fmt.Errorf("%s must be an object of \"bucket/key\" and content", objectsKey)
	}
	for _, name := range slices.Sorted(maps.Keys(objects)) {
		if bucket, key, ok := strings.Cut(name, "/"); !ok || bucket == "" || key == "" {
			return fmt.Errorf("%s: %q is not \"bucket/key\"", objectsKey, name)
		}
		w.objects[name] = []byte(payload.Encode(objects[name]))
	}
	return nil
}

func answers(name string, v any) ([]answer, error) {
	list, ok := v.([]any)
	if !ok {
		one, err := parseAnswer(name, v)
		return []answer{one}, err
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("%s: the list of answers is empty", name)
	}
	parsed := make([]answer, len(list))
	for i, v := range list {
		var err error
		if parsed[i], err = parseAnswer(fmt.Sprintf("%s[%d]", name, i), v); err != nil {
			return nil, err
		}
	}
	return parsed, nil
}

func parseAnswer(at string, v any) (a answer, err error) {
	object, ok := v.(map[string]any)
	if !ok {
		return a, fmt.Errorf("%s: an answer is an object with return, or error and cause, and seconds", at)
	}
	for _, field := range slices.Sorted(maps.Keys(object)) {
		switch v := object[field]; field {
		case "return":
			a.reply = []byte(payload.Encode(v))
		case "error", "cause":
			text, ok := v.(string)
			if !ok {
				return a, fmt.Errorf("%s/%s must be a string", at, field)
			}
			if a.failure == nil {
				a.failure = &asl.FunctionError{}
			}
			if field == "error" {
				a.failure.Type = text
			} else {
				a.failure.Body = text
			}
		case "seconds":
			number, _ := v.(json.Number)
			seconds, err := number.Float64()
			if err != nil || seconds < 0 || seconds > 1e8 {
				return a, fmt.Errorf("%s/seconds must be a number from 0 to 100000000", at)
			}
			a.took = time.Duration(seconds * float64(time.Second))
		default:
			return a, fmt.Errorf("%s: unknown field %q; an answer has return, or error and cause, and seconds", at, field)
		}
	}
	switch {
	case len(object) == 0:
		return a, fmt.Errorf("%s: the answer is empty; it needs return, error or seconds", at)
	case a.failure != nil && a.reply != nil:
		return a, fmt.Errorf("%s: an answer has return or error, not both", at)
	case a.failure != nil && a.failure.Type == "":
		return a, fmt.Errorf("%s: cause needs error beside it", at)
	}
	return a, nil
}

// Invoke implements [asl.Lambda].
func (w *World) Invoke(_ context.Context, call asl.Call) (asl.Invocation, error) {
	return w.Answer(call)
}

// Answer implements [asl.Immediate].
func (w *World) Answer(call asl.Call) (asl.Invocation, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, name := range []string{call.State, call.FunctionARN, call.Function()} {
		list, ok := w.answers[name]
		if !ok {
			continue
		}
		a := list[min(w.calls[name], len(list)-1)]
		w.calls[name]++
		inv := asl.Invocation{Payload: a.reply, Took: a.took}
		if a.failure != nil {
			return inv, a.failure
		}
		return inv, nil
	}
	return asl.Invocation{}, asl.FunctionNotFound(call, uuid.NewString())
}

// Get implements [asl.Objects].
func (w *World) Get(_ context.Context, bucket, key string) ([]byte, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	body, ok := w.objects[bucket+"/"+key]
	if !ok {
		return nil, fmt.Errorf("get %s/%s: %w", bucket, key, asl.ErrNoObject)
	}
	return body, nil
}

// Put implements [asl.Objects]; every bucket exists.
func (w *World) Put(_ context.Context, bucket, key string, body []byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.objects[bucket+"/"+key] = bytes.Clone(body)
	return nil
}
