package step

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"sort"
	"strings"
)

// decodeStrict reads one JSON object into the struct behind target. Unlike
// encoding/json it refuses a field that the struct does not have, a name in
// another case, and null, and it names the path of what it refuses: a typo in
// a setting must not silently mean its default.
func decodeStrict(raw json.RawMessage, target any) error {
	var tree any
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	if err := decoder.Decode(&tree); err != nil {
		return invalid("config", "is not JSON: %v", err)
	}
	if _, isObject := tree.(map[string]any); !isObject {
		return invalid("config", "is %s; it must be an object such as events/schedule.json", kindName(tree))
	}
	if err := checkFields(tree, reflect.TypeOf(target).Elem(), ""); err != nil {
		return err
	}
	if err := json.Unmarshal(raw, target); err != nil {
		var mismatch *json.UnmarshalTypeError
		if errors.As(err, &mismatch) {
			return invalid(mismatch.Field, "is a JSON %s; it must be %s", mismatch.Value, goKind(mismatch.Type))
		}
		return invalid("config", "cannot be read: %v", err)
	}
	return nil
}

func checkFields(value any, t reflect.Type, path string) error {
	if value == nil {
		return invalid(path, "is null; leave the field out to get its default")
	}
	object, isObject := value.(map[string]any)
	if t.Kind() != reflect.Struct || !isObject {
		return nil // json.Unmarshal reports a wrong kind with its path
	}
	if fields := jsonFields(t); fields != nil {
		for _, name := range sortedKeys(object) {
			at := strings.TrimPrefix(path+"."+name, ".")
			field, known := fields[name]
			if !known {
				return invalid(at, "is not a setting; known here: %s", strings.Join(sortedKeys(fields), ", "))
			}
			if err := checkFields(object[name], field, at); err != nil {
				return err
			}
		}
	}
	return nil
}

// jsonFields maps a struct's JSON names to their types; nil for structs that
// read themselves from JSON (time.Time).
func jsonFields(t reflect.Type) map[string]reflect.Type {
	if reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]()) {
		return nil
	}
	fields := map[string]reflect.Type{}
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		fields[name] = t.Field(i).Type
	}
	return fields
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for key := range m {
		keys = append(keys, key)
	}
	sort.Strings(keys)
	return keys
}

func kindName(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case string:
		return "a string"
	case bool:
		return "a boolean"
	case json.Number:
		return "a number"
	case []any:
		return "an array"
	}
	return fmt.Sprintf("a %T", v)
}

func goKind(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Int, reflect.Int64:
		return "a whole number"
	case reflect.Float64:
		return "a number"
	case reflect.Bool:
		return "true or false"
	case reflect.String:
		return "a string"
	case reflect.Slice:
		return "a list"
	}
	return "an object"
}
