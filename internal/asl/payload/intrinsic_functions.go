package payload

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"unicode/utf8"
)

// function is one intrinsic function.
type function struct {
	min, max int                    // how many arguments it takes
	check    func([]argument) error // what else can be judged at load, or nil
	apply    func(s Scope, c *call, args []any) (any, error)
}

const unlimited = math.MaxInt

// functions are those of the developer guide. Where a comment says "measured",
// others ran the function on AWS and published what it did, which differs here
// and there from what the guide says.
var functions = map[string]function{
	"States.Array":          {0, unlimited, nil, array},
	"States.ArrayContains":  {2, 2, nil, arrayContains},
	"States.ArrayGetItem":   {2, 2, nil, arrayGetItem},
	"States.ArrayLength":    {1, 1, nil, arrayLength},
	"States.ArrayPartition": {2, 2, nil, arrayPartition},
	"States.ArrayRange":     {3, 3, nil, arrayRange},
	"States.ArrayUnique":    {1, 1, nil, arrayUnique},
	"States.Base64Decode":   {1, 1, nil, base64Decode},
	"States.Base64Encode":   {1, 1, nil, base64Encode},
	"States.Format":         {1, unlimited, checkFormat, format},
	"States.Hash":           {2, 2, nil, hash},
	"States.JsonMerge":      {3, 3, checkJSONMerge, jsonMerge},
	"States.JsonToString":   {1, 1, nil, jsonToString},
	"States.MathAdd":        {2, 2, nil, mathAdd},
	"States.MathRandom":     {2, 3, nil, mathRandom},
	"States.StringSplit":    {2, 2, nil, stringSplit},
	"States.StringToJson":   {1, 1, nil, stringToJSON},
	"States.UUID":           {0, 0, nil, newUUID},
}

func (f function) arity() string {
	switch {
	case f.max == unlimited:
		return fmt.Sprintf("at least %d arguments", f.min)
	case f.min != f.max:
		return fmt.Sprintf("%d or %d arguments", f.min, f.max)
	case f.min == 1:
		return "1 argument"
	}
	return fmt.Sprintf("%d arguments", f.min)
}

func asArray(v any) ([]any, error) {
	a, ok := v.([]any)
	if !ok {
		return nil, fmt.Errorf("expected an array but found %s", kind(v))
	}
	return a, nil
}

func asObject(v any) (map[string]any, error) {
	o, ok := v.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("expected an object but found %s", kind(v))
	}
	return o, nil
}

func asString(v any) (string, error) {
	s, ok := v.(string)
	if !ok {
		return "", fmt.Errorf("expected a string but found %s", kind(v))
	}
	return s, nil
}

// maxChars limits what is hashed, encoded and decoded.
const maxChars = 10_000

func asLimitedString(v any) (string, error) {
	s, err := asString(v)
	if err != nil {
		return "", err
	}
	if n := utf8.RuneCountInString(s); n > maxChars {
		return "", fmt.Errorf("the string has %d characters, more than %d", n, maxChars)
	}
	return s, nil
}

// asInt32 returns the 32-bit integer that toWhole makes of a number.
func asInt32(v any, toWhole func(float64) float64) (int64, error) {
	n, ok := v.(json.Number)
	if !ok {
		return 0, fmt.Errorf("expected a number but found %s", kind(v))
	}
	f := toWhole(float(n))
	if f < math.MinInt32 || f > math.MaxInt32 {
		return 0, fmt.Errorf("%s is no 32-bit integer", n)
	}
	return int64(f), nil
}

// roundHalfUp rounds halves towards positive infinity (recorded).
func roundHalfUp(f float64) float64 {
	whole := math.Floor(f)
	if f-whole >= 0.5 {
		whole++
	}
	return whole
}

// random returns the generator that the scope asks for.
func (s Scope) random() *rand.Rand {
	if s.Random == nil {
		return rand.New(processSource{})
	}
	return rand.New(s.Random)
}

// processSource is the process's own random source, seeded by the runtime.
type processSource struct{}

func (processSource) Uint64() uint64 { return rand.Uint64() }
