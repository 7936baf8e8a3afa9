package settings

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// raw is JSON that somebody else reads.
type raw = json.RawMessage

// decode reads JSON into target. It refuses what encoding/json lets pass: a
// field that is not a setting, a name in another case, a name given twice, and
// null. A typo must not silently mean the default.
func decode(text raw, target any) error {
	if !json.Valid(text) {
		var any any
		return refuse("", "is not JSON: %v", json.Unmarshal(text, &any))
	}
	return decodeValue(text, reflect.ValueOf(target).Elem(), "")
}

// withdrawn are the settings that earlier versions had, and why they are gone.
var withdrawn = map[string]string{
	"processFunctionArn": "is no setting any more: outputs are fenced by Lockstep's own process function, and a function of your own would have to do that; leave it out, and compile your own processor in (pkg/process)",
}

type defaulting interface{ setDefaults() }

func decodeValue(text raw, into reflect.Value, path string) error {
	if d, has := into.Addr().Interface().(defaulting); has {
		d.setDefaults()
	}
	if into.Type() == reflect.TypeFor[raw]() {
		into.SetBytes(bytes.Clone(text))
		return nil
	}
	switch into.Kind() {
	case reflect.Pointer:
		into.Set(reflect.New(into.Type().Elem()))
		return decodeValue(text, into.Elem(), path)
	case reflect.Struct:
		return decodeStruct(text, into, path)
	case reflect.Map:
		return decodeMap(text, into, path)
	}
	if err := json.Unmarshal(text, into.Addr().Interface()); err != nil {
		return refuse(path, "is %s; it must be %s", excerpt(text), wanted(into.Type()))
	}
	return nil
}

func decodeStruct(text raw, into reflect.Value, path string) error {
	fields := map[string]reflect.Value{}
	for i := range into.NumField() {
		if name := into.Type().Field(i).Tag.Get("json"); name != "" && name != "-" {
			fields[name] = into.Field(i)
		}
	}
	return eachMember(text, path, func(name, at string, value raw) error {
		field, known := fields[name]
		if why, was := withdrawn[name]; was && !known {
			return refuse(at, "%s", why)
		}
		if !known {
			return refuse(at, "is not a setting; known here: %s", strings.Join(slices.Sorted(maps.Keys(fields)), ", "))
		}
		return decodeValue(value, field, at)
	})
}

func decodeMap(text raw, into reflect.Value, path string) error {
	into.Set(reflect.MakeMap(into.Type()))
	return eachMember(text, path, func(name, at string, value raw) error {
		element := reflect.New(into.Type().Elem()).Elem()
		if err := decodeValue(value, element, at); err != nil {
			return err
		}
		into.SetMapIndex(reflect.ValueOf(name), element)
		return nil
	})
}

// eachMember calls each with the members of an object, in their order.
func eachMember(text raw, path string, each func(name, at string, value raw) error) error {
	members, err := membersOf(text)
	if err != nil {
		return refuse(path, "is %s; it must be an object", excerpt(text))
	}
	seen := map[string]bool{}
	for _, m := range members {
		at := strings.TrimPrefix(path+"."+m.name, ".")
		switch {
		case seen[m.name]:
			return refuse(at, "is given twice; keep one")
		case string(m.value) == "null":
			return refuse(at, "is null; leave it out to get its default")
		}
		seen[m.name] = true
		if err := each(m.name, at, m.value); err != nil {
			return err
		}
	}
	return nil
}

// A member is a name and its value, as written.
type member struct {
	name  string
	value raw
}

// membersOf takes an object of valid JSON apart, names given twice included.
func membersOf(text raw) ([]member, error) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	if opening, err := decoder.Token(); err != nil || opening != json.Delim('{') {
		return nil, fmt.Errorf("begins with %v", opening)
	}
	var members []member
	for decoder.More() {
		name, err := decoder.Token()
		if err != nil {
			return nil, err
		}
		m := member{name: fmt.Sprint(name)}
		if err := decoder.Decode(&m.value); err != nil {
			return nil, err
		}
		members = append(members, m)
	}
	return members, nil
}

// objectOf puts members together again.
func objectOf(members []member) raw {
	var out bytes.Buffer
	for i, m := range members {
		out.WriteString(map[bool]string{true: "{", false: ","}[i == 0])
		out.Write(quoted(m.name))
		out.WriteByte(':')
		// It came out of a decoder, so it is valid.
		_ = json.Compact(&out, m.value)
	}
	if len(members) == 0 {
		out.WriteByte('{')
	}
	out.WriteByte('}')
	return out.Bytes()
}

func quoted(text string) raw {
	encoded, _ := json.Marshal(text) // a string has no error
	return encoded
}

// excerpt shows a value that was refused, unless it is long.
func excerpt(text raw) string {
	const most = 40
	shown := string(bytes.TrimSpace(text))
	if len(shown) <= most {
		return shown
	}
	return strings.ToValidUTF8(shown[:most], "") + "…"
}

func wanted(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Int:
		return "a whole number, without quotes"
	case reflect.Bool:
		return "true or false, without quotes"
	case reflect.Slice:
		return "a list of strings"
	}
	return "a string"
}

func or(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return text
}
