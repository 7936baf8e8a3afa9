package step

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"
)

// decodeStrict reads one JSON object into the struct behind target. Unlike
// encoding/json it refuses a field that the struct does not have, a name in
// another case, a name given twice, and null, and it names the path of what it
// refuses: a typo in a setting must not silently mean its default.
func decodeStrict(raw json.RawMessage, target any) error {
	if len(bytes.TrimSpace(raw)) == 0 {
		return invalid("config", "is missing; it must be an object such as events/schedule.json")
	}
	var whole any
	if err := json.Unmarshal(raw, &whole); err != nil {
		return invalid("config", "is not JSON: %v", err)
	}
	object, isObject := whole.(map[string]any)
	if !isObject {
		return invalid("config", "is %s; it must be an object such as events/schedule.json", excerpt(raw))
	}
	if _, isEvent := object["detail-type"]; isEvent {
		return invalid("config", "is EventBridge's own event; give the schedule's target a constant input such as events/schedule.json")
	}
	return decodeObject(raw, reflect.ValueOf(target).Elem(), "")
}

// decodeObject reads an object, known to be valid JSON, field by field.
func decodeObject(raw json.RawMessage, into reflect.Value, path string) error {
	fields := jsonFields(into)
	seen := map[string]bool{}
	decoder := json.NewDecoder(bytes.NewReader(raw))
	if opening, _ := decoder.Token(); opening != json.Delim('{') {
		return invalid(path, "is %s; it must be an object", excerpt(raw))
	}
	for decoder.More() {
		token, err := decoder.Token()
		if err != nil {
			return invalid(path, "is not JSON: %v", err)
		}
		var value json.RawMessage
		if err := decoder.Decode(&value); err != nil {
			return invalid(path, "is not JSON: %v", err)
		}
		name, _ := token.(string) // of a member: nothing else comes here in valid JSON
		at := strings.TrimPrefix(path+"."+name, ".")
		field, known := fields[name]
		switch {
		case !known:
			return invalid(at, "is not a setting; known here: %s", strings.Join(slices.Sorted(maps.Keys(fields)), ", "))
		case seen[name]:
			return invalid(at, "is given twice; keep one")
		case string(value) == "null":
			return invalid(at, "is null; leave the field out to get its default")
		}
		seen[name] = true
		if err := decodeValue(value, field, at); err != nil {
			return err
		}
	}
	return nil
}

func decodeValue(raw json.RawMessage, into reflect.Value, path string) error {
	if _, readsItself := into.Addr().Interface().(json.Unmarshaler); into.Kind() == reflect.Struct && !readsItself {
		return decodeObject(raw, into, path)
	}
	if err := json.Unmarshal(raw, into.Addr().Interface()); err != nil {
		return invalid(path, "is %s; it must be %s", excerpt(raw), wanted(into.Type()))
	}
	return nil
}

// jsonFields maps a struct's JSON names to its fields.
func jsonFields(of reflect.Value) map[string]reflect.Value {
	fields := map[string]reflect.Value{}
	for i := range of.NumField() {
		name, _, _ := strings.Cut(of.Type().Field(i).Tag.Get("json"), ",")
		fields[name] = of.Field(i)
	}
	return fields
}

// excerpt shows a value that was refused, unless it is long.
func excerpt(raw json.RawMessage) string {
	const most = 40
	text := string(bytes.TrimSpace(raw))
	if len(text) <= most {
		return text
	}
	return fmt.Sprintf("%s…", strings.ToValidUTF8(text[:most], ""))
}

func wanted(t reflect.Type) string {
	if t == reflect.TypeFor[time.Time]() {
		return `a time such as "2026-01-31T09:00:00Z"`
	}
	switch t.Kind() {
	case reflect.Int, reflect.Int64:
		return "a whole number below 2^63, without quotes"
	case reflect.Float64:
		return "a number, without quotes"
	case reflect.Bool:
		return "true or false, without quotes"
	case reflect.Slice:
		return "a list of strings"
	}
	return "a string"
}
