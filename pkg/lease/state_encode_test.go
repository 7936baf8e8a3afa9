package lease

import (
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"
)

// The encoder is written by hand. Every field of every part is filled, so that
// one it forgets is missed here.
func TestEncodingIsReadByEncodingJSON(t *testing.T) {
	const seed = 20260302
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	for range 200 {
		var want, got document
		fill(reflect.ValueOf(&want).Elem(), random)
		text := want.appendJSON(nil)
		if err := json.Unmarshal(text, &got); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("%s\nis read as   %+v\nand stands for %+v", text, got, want)
		}
		viaJSON, err := json.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		var fields, want2 map[string]any
		if json.Unmarshal(text, &fields) != nil || json.Unmarshal(viaJSON, &want2) != nil || !reflect.DeepEqual(fields, want2) {
			t.Fatalf("%s\nis not what encoding/json writes:\n%s", text, viaJSON)
		}
	}
}

// fill sets v and all in it to something that is not zero, or, where a field
// may be left out, sometimes to zero.
func fill(v reflect.Value, random *rand.Rand) {
	switch {
	case v.Type() == reflect.TypeFor[time.Time]():
		v.Set(reflect.ValueOf(time.Unix(random.Int64N(1<<33), random.Int64N(2)*random.Int64N(1e9)).UTC()))
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i), random)
		}
	case v.Kind() == reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), random.IntN(4), 3))
		for i := range v.Len() {
			fill(v.Index(i), random)
		}
	case v.Kind() == reflect.String:
		alphabet := []rune("ab/:\"\\<&é\u2028\n\x7f😀")
		for range random.IntN(6) {
			v.SetString(v.String() + string(alphabet[random.IntN(len(alphabet))]))
		}
	default:
		v.SetInt(random.Int64N(2*maxToken) - maxToken)
	}
}
