package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sfn/types"

	"github.com/lockstep-pipeline/lockstep/internal/asl"
)

// eventOf is an event as the API gave it. All its details are kept.
func eventOf(e types.HistoryEvent) (asl.Event, error) {
	var text bytes.Buffer
	var event asl.Event
	err := writeMembers(&text, reflect.ValueOf(e))
	if err == nil {
		err = json.Unmarshal(text.Bytes(), &event)
	}
	if err != nil {
		return asl.Event{}, fmt.Errorf("event %d of the history: %w", e.Id, err)
	}
	return event, nil
}

// writeMembers writes one of the SDK's structures in the form of the protocol:
// a member is called like its field, but for the first letter, and what the
// service left out is not there. Source: the JSON names in the service's model.
func writeMembers(b *bytes.Buffer, structure reflect.Value) error {
	b.WriteByte('{')
	comma := ""
	for field, value := range structure.Fields() {
		if !field.IsExported() || value.Kind() == reflect.Pointer && value.IsNil() || value.Kind() == reflect.Map && value.Len() == 0 {
			continue
		}
		fmt.Fprintf(b, "%s%q:", comma, strings.ToLower(field.Name[:1])+field.Name[1:])
		comma = ","
		if err := writeValue(b, value); err != nil {
			return err
		}
	}
	b.WriteByte('}')
	return nil
}

func writeValue(b *bytes.Buffer, value reflect.Value) error {
	if value.Kind() == reflect.Pointer {
		value = value.Elem()
	}
	var text []byte
	var err error
	if at, is := value.Interface().(time.Time); is {
		text, err = json.Marshal(asl.Time(at.Round(time.Millisecond))) // it came as a fraction of seconds
	} else if value.Kind() == reflect.Struct {
		return writeMembers(b, value)
	} else {
		text, err = json.Marshal(value.Interface())
	}
	b.Write(text)
	return err
}
