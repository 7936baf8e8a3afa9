package payload

import (
	"encoding/json"
	"errors"
)

// Decode reads exactly one JSON text.
//
// Numbers keep their digits; only the integer -0 becomes 0, as it does on AWS.
// When an object has a key twice the last one counts. Text that is not UTF-8,
// or that goes on after the value, is an error.
func Decode(text []byte) (any, error) { return nil, errors.New("not built yet") }

// DecodeUnique is Decode for text that a person wrote: it also refuses an
// object that has a key twice, and says where.
func DecodeUnique(text []byte) (any, error) { return nil, errors.New("not built yet") }

// Encode writes v as compact JSON: no spaces, keys in sorted order, nothing
// escaped that JSON does not require to be. It panics if v holds a Go value
// that is not a JSON value of this package: that is a fault in the program.
func Encode(v any) string { panic("not built yet") }

// Equal reports whether a and b are the same JSON value. Numbers are compared
// by value, so that 1 equals 1.0; the order of keys does not matter.
func Equal(a, b any) bool { panic("not built yet") }

// Integer returns n as a JSON number.
func Integer(n int64) json.Number { panic("not built yet") }

// Int64 returns the integer that v is. It is false for a number with a
// fraction or an exponent (1.0 is none), one beyond 64 bits, and anything that
// is not a number.
func Int64(v any) (int64, bool) { panic("not built yet") }
