package payload

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

// maxRange limits what States.ArrayRange makes.
const maxRange = 1000

func array(_ Scope, _ *call, args []any) (any, error) { return args, nil }

// arrayContains compares texts: the number 1 is contained in ["1"] (measured).
// What null does was not measured; here it is the text "null".
func arrayContains(_ Scope, _ *call, args []any) (any, error) {
	a, err := asArray(args[0])
	if err != nil {
		return nil, err
	}
	want := plainText(args[1])
	return slices.ContainsFunc(a, func(e any) bool { return plainText(e) == want }), nil
}

// plainText is a string as it is and anything else as JSON.
func plainText(v any) string {
	if s, ok := v.(string); ok {
		return s
	}
	return Encode(v)
}

// arrayGetItem cuts the fraction off an index, and finds null in an empty
// array whatever the index (both measured).
func arrayGetItem(_ Scope, _ *call, args []any) (any, error) {
	a, err := asArray(args[0])
	if err != nil {
		return nil, err
	}
	i, err := asInt32(args[1], math.Trunc)
	if err != nil {
		return nil, err
	}
	switch {
	case len(a) == 0 && i >= 0:
		return nil, nil
	case i < 0 || i >= int64(len(a)):
		return nil, fmt.Errorf("there is no item %d in an array of %d", i, len(a))
	}
	return a[i], nil
}

func arrayLength(_ Scope, _ *call, args []any) (any, error) {
	a, err := asArray(args[0])
	if err != nil {
		return nil, err
	}
	return Integer(int64(len(a))), nil
}

// arrayPartition cuts the fraction off the size (measured; the guide says that
// it is rounded).
func arrayPartition(_ Scope, _ *call, args []any) (any, error) {
	a, err := asArray(args[0])
	if err != nil {
		return nil, err
	}
	size, err := asInt32(args[1], math.Trunc)
	if err != nil {
		return nil, err
	}
	if size < 1 {
		return nil, fmt.Errorf("the chunk size %d is not positive", size)
	}
	chunks := []any{}
	for chunk := range slices.Chunk(a, int(size)) {
		chunks = append(chunks, chunk)
	}
	return chunks, nil
}

// arrayRange includes the end when it is hit, cuts fractions off, and is empty
// when the step leads away from the end (all measured).
func arrayRange(_ Scope, _ *call, args []any) (any, error) {
	var n [3]int64
	for i, v := range args {
		var err error
		if n[i], err = asInt32(v, math.Trunc); err != nil {
			return nil, err
		}
	}
	first, last, step := n[0], n[1], n[2]
	if step == 0 {
		return nil, errors.New("the step is zero")
	}
	items := []any{}
	for i := first; step > 0 && i <= last || step < 0 && i >= last; i += step {
		if len(items) == maxRange {
			return nil, fmt.Errorf("the range has more than %d items", maxRange)
		}
		items = append(items, Integer(i))
	}
	return items, nil
}

// arrayUnique keeps the first of equal items. The order in which AWS returns
// them is that of a Java hash set: the same for small whole numbers, another
// one for booleans and arrays (measured). Do not depend on it.
func arrayUnique(_ Scope, _ *call, args []any) (any, error) {
	a, err := asArray(args[0])
	if err != nil {
		return nil, err
	}
	seen := map[string]bool{}
	unique := []any{}
	for _, e := range a {
		if c := canonical(e); !seen[c] {
			seen[c] = true
			unique = append(unique, e)
		}
	}
	return unique, nil
}
