package mock_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-pipeline/lockstep/internal/asl"
	"github.com/lockstep-pipeline/lockstep/internal/asl/mock"
)

const arn = "arn:aws:lambda:us-east-1:123456789012:function:f"

func load(t *testing.T, text string) *mock.World {
	t.Helper()
	w, err := mock.Load([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func TestAnswersAreUsedInOrderAndTheLastIsRepeated(t *testing.T) {
	w := load(t, `{"f":[{"return":{"n":1.0}},{"error":"E","cause":"C","seconds":0.5},{"seconds":2}]}`)
	call := asl.Call{State: "S", FunctionARN: arn}
	if inv, err := w.Answer(call); err != nil || string(inv.Payload) != `{"n":1.0}` || inv.Took != 0 {
		t.Errorf("first: %s, %v, %v", inv.Payload, inv.Took, err)
	}
	inv, err := w.Answer(call)
	var failed *asl.FunctionError
	if !errors.As(err, &failed) || failed.Type != "E" || failed.Body != "C" || inv.Took != 500*time.Millisecond {
		t.Errorf("second: %v, %v", inv.Took, err)
	}
	for range 2 {
		if inv, err := w.Answer(call); err != nil || inv.Payload != nil || inv.Took != 2*time.Second {
			t.Errorf("later: %s, %v, %v", inv.Payload, inv.Took, err)
		}
	}
}

func TestAStatesMockWinsOverItsFunctions(t *testing.T) {
	w := load(t, `{"S":{"return":1},"`+arn+`":{"return":2},"f":{"return":3}}`)
	for _, test := range []struct {
		call asl.Call
		want string
	}{
		{asl.Call{State: "S", FunctionARN: arn}, "1"},
		{asl.Call{State: "T", FunctionARN: arn}, "2"},
		{asl.Call{State: "T", FunctionARN: strings.Replace(arn, "us-east-1", "eu-west-1", 1)}, "3"},
	} {
		if inv, err := w.Answer(test.call); err != nil || string(inv.Payload) != test.want {
			t.Errorf("%+v: %s, %v", test.call, inv.Payload, err)
		}
	}
}

func TestAFunctionWithoutMockDoesNotExist(t *testing.T) {
	_, err := load(t, "").Answer(asl.Call{State: "S", FunctionARN: arn})
	var service *asl.ServiceError
	if !errors.As(err, &service) || service.Name != "Lambda.ResourceNotFoundException" || !strings.HasPrefix(service.Message, "Function not found: "+arn+":$LATEST (Service: AWSLambda;") {
		t.Errorf("%v", err)
	}
}

func TestObjects(t *testing.T) {
	w := load(t, `{"s3":{"b/k/items.json":[1, 2.0]}}`)
	if body, err := w.Get(t.Context(), "b", "k/items.json"); err != nil || string(body) != "[1,2.0]" {
		t.Errorf("%s, %v", body, err)
	}
	if _, err := w.Get(t.Context(), "b", "other"); !errors.Is(err, asl.ErrNoObject) {
		t.Errorf("a missing object: %v", err)
	}
	if err := w.Put(t.Context(), "c", "x", []byte("text")); err != nil {
		t.Error(err)
	}
	if body, err := w.Get(t.Context(), "c", "x"); err != nil || string(body) != "text" {
		t.Errorf("%s, %v", body, err)
	}
}

func TestRefusals(t *testing.T) {
	for text, want := range map[string]string{
		`[]`:                                "must be a JSON object",
		`{"f":{}`:                           "decode JSON",
		`{"f":{},"f":{}}`:                   `"f" stands twice`,
		`{"f":{}}`:                          "f: the answer is empty",
		`{"f":[]}`:                          "f: the list of answers is empty",
		`{"f":[{"return":1},{"retrun":1}]}`: `f[1]: unknown field "retrun"`,
		`{"f":[1]}`:                         "f[0]: an answer is an object",
		`{"f":{"return":1,"error":"E"}}`:    "f: an answer has return or error, not both",
		`{"f":{"cause":"C"}}`:               "f: cause needs error",
		`{"f":{"error":1}}`:                 "f/error must be a string",
		`{"f":{"return":1,"seconds":-1}}`:   "f/seconds must be a number",
		`{"f":{"return":1,"seconds":"1"}}`:  "f/seconds must be a number",
		`{"s3":[]}`:                         "s3 must be an object",
		`{"s3":{"bucket":[]}}`:              `s3: "bucket" is not "bucket/key"`,
	} {
		if _, err := mock.Load([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want %s", text, err, want)
		}
	}
}
