package asl_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/lockstep-pipeline/lockstep/internal/asl"
)

// one is a machine of one state X.
func one(state string) string { return `{"StartAt":"X","States":{"X":` + state + `}}` }

const (
	schema    = "SCHEMA_VALIDATION_FAILED: "
	noTarget  = "MISSING_TRANSITION_TARGET: "
	noEnd     = "MISSING_END_STATE: Workflow has no terminal state at null"
	unknown   = "NOT_EXECUTED: "
	byThis    = " is not executed by this interpreter"
	task      = `"Type":"Task","Resource":"arn:aws:lambda:us-east-1:123456789012:function:f","End":true`
	badField  = " must be a valid JSONPath or a valid intrinsic function call at /States/X/"
	processor = `"ItemProcessor":{"StartAt":"P","States":{"P":{"Type":"Pass","End":true}}}`
	children  = `"ItemProcessor":{"ProcessorConfig":{"Mode":"DISTRIBUTED","ExecutionType":"STANDARD"},"StartAt":"P","States":{"P":{"Type":"Pass","End":true}}}`
	reader    = `"ItemReader":{"Resource":"arn:aws:states:::s3:getObject","ReaderConfig":{"InputType":"JSON"},"Parameters":{"Bucket":"b","Key":"k"}}`
)

// TestRefusals checks code, message and location of everything that a definition is refused for. Those that AWS gives
// in its own words stand as AWS-recorded texts.
func TestRefusals(t *testing.T) {
	tests := map[string]struct {
		definition string
		want       []string
	}{
		"empty text":        {"", []string{schema + "Definition must be a valid JSON object"}},
		"no object":         {"[]", []string{schema + "Definition must be a valid JSON object"}},
		"empty object":      {"{}", []string{schema + "These fields are required: [States, StartAt] at /"}},
		"no StartAt":        {`{"States":{"X":{"Type":"Succeed"}}}`, []string{schema + "These fields are required: [StartAt] at /"}},
		"no States":         {`{"StartAt":"X"}`, []string{schema + "These fields are required: [States] at /"}},
		"broken JSON":       {`{"StartAt": }`, []string{"INVALID_JSON_DESCRIPTION: Invalid JSON: invalid character '}' looking for beginning of value (line 1, column 13)"}},
		"cut JSON":          {`{"StartAt": "X"`, []string{"INVALID_JSON_DESCRIPTION: Invalid JSON: unexpected EOF (line 1, column 16)"}},
		"duplicate state":   {`{"StartAt":"X","States":{"X":{"Type":"Succeed"},"X":{"Type":"Fail"}}}`, []string{"DUPLICATE_STATE_NAME: Duplicate State name: X at /States/X"}},
		"duplicate inside":  {one(`{"Type":"Parallel","Branches":[{"StartAt":"X","States":{"X":{"Type":"Succeed"}}}],"End":true}`), []string{"DUPLICATE_STATE_NAME: Duplicate State name: X at /States/X/Branches[0]/States/X"}},
		"duplicate field":   {one(`{"Type":"Succeed","Type":"Fail"}`), []string{"INVALID_JSON_DESCRIPTION: Duplicate field: Type at /States/X/Type"}},
		"unknown type":      {one(`{"Type":"Job","End":true}`), []string{schema + "The field 'Type' should have one of these values: [Task, Wait, Pass, Succeed, Fail, Choice, Parallel, Map] at /States/X/Type"}},
		"no type":           {one(`{"End":true}`), []string{schema + "These fields are required: [Type] at /States/X"}},
		"JSONata":           {`{"QueryLanguage":"JSONata","StartAt":"X","States":{"X":{"Type":"Pass","Output":"{% 1 %}","End":true}}}`, []string{unknown + "QueryLanguage 'JSONata'" + byThis + ", only 'JSONPath' at /QueryLanguage"}},
		"JSONata in state":  {one(`{"QueryLanguage":"JSONata","Type":"Pass","Output":"{% 1 %}","End":true}`), []string{unknown + "QueryLanguage 'JSONata'" + byThis + ", only 'JSONPath' at /States/X/QueryLanguage"}},
		"JSONata field":     {one(`{"Type":"Pass","Output":{},"End":true}`), []string{schema + "The QueryLanguage is set to 'JSONPath', but field 'Output' is only supported for the 'JSONata' QueryLanguage at /States/X"}},
		"top-level field":   {`{"StartAt":"X","TimeoutSecond":1,"States":{"X":{"Type":"Succeed"}}}`, []string{schema + "Field 'TimeoutSecond' is not supported at /"}},
		"dangling targets":  {`{"StartAt":"A","States":{"A":{"Type":"Choice","Choices":[{"Variable":"$.x","IsNull":true,"Next":"B"}],"Default":"C"},"S":{"Type":"Succeed"}}}`, []string{noTarget + "Missing 'Next' target: C at /States/A/Default", noTarget + "Missing 'Next' target: B at /States/A/Choices[0]/Next", noTarget + `State "S" is not reachable. at /States/S`}},
		"dangling start":    {`{"StartAt":"Y","States":{"X":{"Type":"Succeed"}}}`, []string{noTarget + "Missing 'Next' target: Y at /StartAt", noTarget + `State "X" is not reachable. at /States/X`}},
		"dangling next":     {one(`{"Type":"Pass","Next":"NOPE"}`), []string{noTarget + "Missing 'Next' target: NOPE at /States/X/Next", noEnd}},
		"dangling catch":    {one(`{` + task + `,"Catch":[{"ErrorEquals":["E"],"Next":"Y"}]}`), []string{noTarget + "Missing 'Next' target: Y at /States/X/Catch[0]/Next"}},
		"two mistakes":      {`{"StartAt":"pass1","States":{"pass1":{"Type":"Pass","Next":"pass3"},"pass2":{"Type":"Pass","End":true}}}`, []string{noTarget + "Missing 'Next' target: pass3 at /States/pass1/Next", noTarget + `State "pass2" is not reachable. at /States/pass2`}},
		"loop":              {`{"StartAt":"A","States":{"A":{"Type":"Pass","Next":"B"},"B":{"Type":"Pass","Next":"A"},"C":{"Type":"Pass","Next":"A"}}}`, []string{noEnd}},
		"loop and end":      {`{"StartAt":"A","States":{"A":{"Type":"Pass","Next":"A"},"C":{"Type":"Succeed"}}}`, []string{noTarget + `State "C" is not reachable. at /States/C`}},
		"next and end":      {one(`{"Type":"Pass","Next":"X","End":true}`), []string{schema + "There should only be one of the following fields: [Next, End] at /States/X"}},
		"neither":           {one(`{"Type":"Pass"}`), []string{schema + "There should be one of the following fields: [Next, End] at /States/X"}},
		"end of Choice":     {one(`{"Type":"Choice","Choices":[{"Variable":"$.x","IsNull":true,"Next":"X"}],"End":true}`), []string{schema + "Field 'End' is not supported at /States/X", noEnd}},
		"end is text":       {one(`{"Type":"Pass","End":"True"}`), []string{schema + "Expected value of type Boolean at /States/X/End"}},
		"rule without Next": {one(`{"Type":"Choice","Choices":[{"Variable":"$.x","IsNull":true}],"Default":"X"}`), []string{schema + "These fields are required: [Next] at /States/X/Choices[0]"}},
		"nested Next":       {`{"StartAt":"X","States":{"X":{"Type":"Choice","Choices":[{"And":[{"Variable":"$.x","IsNull":true,"Next":"S"}],"Next":"S"}]},"S":{"Type":"Succeed"}}}`, []string{schema + "Field 'Next' is not supported at /States/X/Choices[0]/And[0]"}},
		"Variable":          {`{"StartAt":"X","States":{"X":{"Type":"Choice","Choices":[{"Variable":"x","IsNull":true,"Next":"S"}]},"S":{"Type":"Succeed"}}}`, []string{schema + "Value is not a Reference Path: Reference path didn't start with '$' at /States/X/Choices[0]/Variable"}},
		"two comparisons":   {`{"StartAt":"X","States":{"X":{"Type":"Choice","Choices":[{"Variable":"$.x","IsNull":true,"IsString":true,"Next":"S"}]},"S":{"Type":"Succeed"}}}`, []string{schema + "There should only be one of the following fields: [IsNull, IsString] at /States/X/Choices[0]"}},
		"unknown operator":  {`{"StartAt":"X","States":{"X":{"Type":"Choice","Choices":[{"Variable":"$.x","StringIs":"a","Next":"S"}]},"S":{"Type":"Succeed"}}}`, []string{schema + "A choice rule needs a comparison, 'And', 'Or' or 'Not' at /States/X/Choices[0]", schema + "Field 'Variable' is not supported at /States/X/Choices[0]", schema + "Field 'StringIs' is not supported at /States/X/Choices[0]"}},
		"Retry on Choice":   {`{"StartAt":"X","States":{"X":{"Type":"Choice","Retry":[],"Choices":[{"Variable":"$.x","IsNull":true,"Next":"S"}]},"S":{"Type":"Succeed"}}}`, []string{schema + "Field 'Retry' is not supported at /States/X"}},

		"Heartbeat":        {one(`{` + task + `,"HeartbeatSeconds":1}`), []string{unknown + "Field 'HeartbeatSeconds'" + byThis + " at /States/X"}},
		"Assign":           {one(`{"Type":"Pass","Assign":{"x":1},"End":true}`), []string{unknown + "Field 'Assign'" + byThis + " at /States/X"}},
		"other resource":   {one(`{"Type":"Task","Resource":"arn:aws:states:::sqs:sendMessage","Parameters":{},"End":true}`), []string{unknown + "The resource 'arn:aws:states:::sqs:sendMessage'" + byThis + ", only Lambda functions and arn:aws:states:::lambda:invoke at /States/X/Resource"}},
		"no resource":      {one(`{"Type":"Task","End":true}`), []string{schema + "These fields are required: [Resource] at /States/X"}},
		"no ARN":           {one(`{"Type":"Task","Resource":"f","End":true}`), []string{schema + "Value is not a valid resource ARN at /States/X/Resource"}},
		"no FunctionName":  {one(`{"Type":"Task","Resource":"arn:aws:states:::lambda:invoke","Parameters":{"Payload":1,"Function":"f"},"End":true}`), []string{schema + "These fields are required: [FunctionName] at /States/X/Parameters", schema + `The field "Function" is not supported by Step Functions at /States/X/Parameters`}},
		"Event invocation": {one(`{"Type":"Task","Resource":"arn:aws:states:::lambda:invoke","Parameters":{"FunctionName":"f","InvocationType":"Event"},"End":true}`), []string{unknown + "InvocationType" + byThis + ", except for 'RequestResponse' at /States/X/Parameters"}},
		"timeouts":         {one(`{` + task + `,"TimeoutSeconds":0,"TimeoutSecondsPath":"$.x"}`), []string{schema + "There should only be one of the following fields: [TimeoutSeconds, TimeoutSecondsPath] at /States/X", schema + "Minimum value is 1 at /States/X/TimeoutSeconds"}},
		"timeout fraction": {one(`{` + task + `,"TimeoutSeconds":1.5}`), []string{schema + "Expected value of type Integer at /States/X/TimeoutSeconds"}},
		"context number":   {one(`{` + task + `,"TimeoutSecondsPath":"$$.Execution.Input.n"}`), []string{schema + "Value is not a Reference Path: it starts with '$$', and this field cannot read the context object at /States/X/TimeoutSecondsPath"}},
		"template":         {one(`{"Type":"Pass","Parameters":{"parsed.$":"States.StringToJson('\\x')"},"End":true}`), []string{schema + "The value for the field 'parsed.$'" + badField + "Parameters"}},
		"template below":   {one(`{"Type":"Pass","Parameters":{"a":[{"x.$":"nope"}]},"End":true}`), []string{schema + "The value for the field 'x.$'" + badField + "Parameters/a[0]"}},
		"ResultPath":       {one(`{"Type":"Pass","ResultPath":"$.a[*]","End":true}`), []string{schema + "Value is not a Reference Path: the path '$.a[*]' may hold only fixed keys and indexes: no wildcard, slice, filter, descent or negative index at /States/X/ResultPath"}},
		"wait":             {one(`{"Type":"Wait","End":true}`), []string{schema + "There should be one of the following fields: [Seconds, SecondsPath, Timestamp, TimestampPath] at /States/X"}},
		"two waits":        {one(`{"Type":"Wait","Seconds":1,"Timestamp":"2026-01-31T09:00:00Z","End":true}`), []string{schema + "There should only be one of the following fields: [Seconds, SecondsPath, Timestamp, TimestampPath] at /States/X"}},
		"negative wait":    {one(`{"Type":"Wait","Seconds":-1,"End":true}`), []string{schema + "Minimum value is 0 at /States/X/Seconds"}},
		"timestamp":        {one(`{"Type":"Wait","Timestamp":"tomorrow","End":true}`), []string{schema + "Expected value of type Timestamp at /States/X/Timestamp"}},
		"fail":             {one(`{"Type":"Fail","Error":"E","ErrorPath":"$.e","Next":"X"}`), []string{schema + "There should only be one of the following fields: [Error, ErrorPath] at /States/X", schema + "Field 'Next' is not supported at /States/X"}},

		"retriers": {one(`{` + task + `,"Retry":[{"ErrorEquals":["States.ALL","A"]},{"ErrorEquals":["B"],"IntervalSeconds":0,"MaxAttempts":-1,"BackoffRate":0.5,"JitterStrategy":"SOME"},{"ErrorEquals":[],"IntervalSeconds":5,"MaxDelaySeconds":5},{}]}`), []string{
			schema + "'States.ALL' must appear alone, and only in the last entry at /States/X/Retry[0]/ErrorEquals",
			schema + "Minimum value is 1 at /States/X/Retry[1]/IntervalSeconds",
			schema + "Minimum value is 0 at /States/X/Retry[1]/MaxAttempts",
			schema + "Minimum value is 1.0 at /States/X/Retry[1]/BackoffRate",
			schema + "The field 'JitterStrategy' should have one of these values: [FULL, NONE] at /States/X/Retry[1]/JitterStrategy",
			schema + "There must be at least one error name at /States/X/Retry[2]/ErrorEquals",
			schema + "MaxDelaySeconds must be greater than IntervalSeconds at /States/X/Retry[2]/MaxDelaySeconds",
			schema + "These fields are required: [ErrorEquals] at /States/X/Retry[3]",
		}},
		"States.ALL early": {one(`{` + task + `,"Catch":[{"ErrorEquals":["States.ALL"],"Next":"X"},{"ErrorEquals":["A"],"Next":"X"}]}`), []string{schema + "'States.ALL' must appear alone, and only in the last entry at /States/X/Catch[0]/ErrorEquals"}},
		"Catch field":      {one(`{` + task + `,"Catch":[{"ErrorEquals":["A"],"Next":"X","OutputPath":"$"}]}`), []string{schema + "Field 'OutputPath' is not supported at /States/X/Catch[0]"}},

		"timeout of Map":       {one(`{"Type":"Map",` + processor + `,"TimeoutSeconds":1,"End":true}`), []string{schema + "Field 'TimeoutSeconds' is not supported at /States/X"}},
		"timeout of Parallel":  {one(`{"Type":"Parallel","Branches":[{"StartAt":"P","States":{"P":{"Type":"Succeed"}}}],"TimeoutSeconds":1,"End":true}`), []string{schema + "Field 'TimeoutSeconds' is not supported at /States/X"}},
		"branch":               {one(`{"Type":"Parallel","Branches":[{"StartAt":"P","States":{"P":{"Type":"Pass","Next":"X"}}}],"End":true}`), []string{noTarget + "Missing 'Next' target: X at /States/X/Branches[0]/States/P/Next", noEnd}},
		"no processor":         {one(`{"Type":"Map","End":true}`), []string{schema + "These fields are required: [ItemProcessor] at /States/X"}},
		"both processors":      {one(`{"Type":"Map",` + processor + `,"Iterator":{},"End":true}`), []string{schema + "There should only be one of the following fields: [ItemProcessor, Iterator] at /States/X"}},
		"negative concurrency": {one(`{"Type":"Map",` + processor + `,"MaxConcurrency":-1,"End":true}`), []string{schema + "Minimum value is 0 at /States/X/MaxConcurrency"}},
		"context concurrency":  {one(`{"Type":"Map",` + processor + `,"MaxConcurrencyPath":"$$.Execution.Input.n","End":true}`), []string{schema + "Value is not a Reference Path: it starts with '$$', and this field cannot read the context object at /States/X/MaxConcurrencyPath"}},
		"query language":       {one(`{"Type":"Map","ItemProcessor":{"QueryLanguage":"JSONPath","StartAt":"P","States":{"P":{"Type":"Succeed"}}},"End":true}`), []string{schema + "Field 'QueryLanguage' is not supported at /States/X/ItemProcessor"}},
		"inline tolerance":     {one(`{"Type":"Map",` + processor + `,"ToleratedFailureCount":1,"End":true}`), []string{unknown + "Field 'ToleratedFailureCount'" + byThis + " at /States/X"}},
		"batcher":              {one(`{"Type":"Map",` + children + `,"ItemBatcher":{"MaxItemsPerBatch":2},"End":true}`), []string{unknown + "Field 'ItemBatcher'" + byThis + " at /States/X"}},
		"tolerances":           {one(`{"Type":"Map",` + children + `,"ToleratedFailureCount":-1,"ToleratedFailurePercentage":100.1,"End":true}`), []string{schema + "Minimum value is 0 at /States/X/ToleratedFailureCount", schema + "Maximum value is 100.0 at /States/X/ToleratedFailurePercentage"}},
		"negative percentage":  {one(`{"Type":"Map",` + children + `,"ToleratedFailurePercentage":-1,"End":true}`), []string{schema + "Minimum value is 0.0 at /States/X/ToleratedFailurePercentage"}},
		"execution type":       {one(`{"Type":"Map","ItemProcessor":{"ProcessorConfig":{"Mode":"DISTRIBUTED"},"StartAt":"P","States":{"P":{"Type":"Succeed"}}},"End":true}`), []string{schema + "These fields are required: [ExecutionType] at /States/X/ItemProcessor/ProcessorConfig"}},
		"label":                {one(`{"Type":"Map",` + children + `,"Label":"a b","End":true}`), []string{"INVALID_LABEL_NAME: Invalid label: a b at /States/X/Label"}},
		"reader and path":      {one(`{"Type":"Map",` + children + `,` + reader + `,"ItemsPath":"$.x","End":true}`), []string{unknown + "ItemsPath next to ItemReader" + byThis + ": it has no effect at /States/X"}},
		"max items":            {one(`{"Type":"Map",` + children + `,"ItemReader":{"Resource":"arn:aws:states:::s3:getObject","ReaderConfig":{"InputType":"JSON","MaxItems":1,"MaxItemsPath":"$.n"},"Parameters":{"Bucket":"b","Key":"k"}},"End":true}`), []string{schema + "There should only be one of the following fields: [MaxItems, MaxItemsPath] at /States/X/ItemReader/ReaderConfig"}},
		"reader":               {one(`{"Type":"Map",` + children + `,"ItemReader":{"Resource":"arn:aws:states:::s3:listObjectsV2","ReaderConfig":{"InputType":"CSV","CSVHeaderLocation":"FIRST_ROW"},"Parameters":{"Bucket":"b"}},"End":true}`), []string{unknown + "The resource 'arn:aws:states:::s3:listObjectsV2'" + byThis + ", only 'arn:aws:states:::s3:getObject' at /States/X/ItemReader/Resource", schema + "These fields are required: [Key] at /States/X/ItemReader/Parameters", unknown + "InputType 'CSV'" + byThis + ", only 'JSON' at /States/X/ItemReader/ReaderConfig/InputType", unknown + "Field 'CSVHeaderLocation'" + byThis + " at /States/X/ItemReader/ReaderConfig"}},
		"writer":               {one(`{"Type":"Map",` + children + `,"ResultWriter":{"Resource":"arn:aws:states:::s3:putObject","Parameters":{"Bucket":1},"WriterConfig":{}},"End":true}`), []string{schema + "Expected value of type String at /States/X/ResultWriter/Parameters/Bucket", unknown + "Field 'WriterConfig'" + byThis + " at /States/X/ResultWriter"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := asl.Load([]byte(test.definition))
			var refused *asl.DefinitionError
			if !errors.As(err, &refused) {
				t.Fatalf("Load: %v; it should refuse", err)
			}
			var got []string
			for _, d := range refused.Diagnostics {
				if d.Severity != "ERROR" {
					t.Errorf("severity %q", d.Severity)
				}
				got = append(got, d.String())
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("got\n  %s\nwant\n  %s", strings.Join(got, "\n  "), strings.Join(test.want, "\n  "))
			}
		})
	}
}

func TestRefusalsReadAsCreateStateMachineSays(t *testing.T) {
	_, err := asl.Load([]byte(one(`{"Type":"Pass","Next":"NOPE"}`)))
	const want = "Invalid State Machine Definition: 'MISSING_TRANSITION_TARGET: Missing 'Next' target: NOPE at /States/X/Next, " +
		"MISSING_END_STATE: Workflow has no terminal state at null'"
	if err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}

func TestValidationHasTheShapeOfTheAPI(t *testing.T) {
	_, err := asl.Load([]byte("{}"))
	var refused *asl.DefinitionError
	if !errors.As(err, &refused) {
		t.Fatal(err)
	}
	for _, test := range []struct {
		err  *asl.DefinitionError
		want string
	}{
		{nil, `{"result":"OK","diagnostics":[],"truncated":false}`},
		{refused, `{"result":"FAIL","diagnostics":[{"severity":"ERROR","code":"SCHEMA_VALIDATION_FAILED","message":"These fields are required: [States, StartAt]","location":"/"}],"truncated":false}`},
	} {
		got, err := json.Marshal(asl.Validate(test.err))
		if err != nil || string(got) != test.want {
			t.Errorf("got  %s, %v\nwant %s", got, err, test.want)
		}
	}
}

// TestAccepted holds what must load because AWS accepts it and it has no effect, or the effect is ours.
func TestAccepted(t *testing.T) {
	for name, definition := range map[string]string{
		"comments": `{"Comment":"c","Version":"1.0","QueryLanguage":"JSONPath","StartAt":"X","States":{"X":{` + task + `,"Comment":"c","QueryLanguage":"JSONPath","TimeoutSeconds":99999999,
			"Retry":[{"Comment":"c","ErrorEquals":["State.ALL"],"JitterStrategy":"FULL","MaxDelaySeconds":2}],"Catch":[]}}}`,
		"end false":   `{"StartAt":"X","States":{"X":{"Type":"Pass","End":false,"Next":"S"},"S":{"Type":"Succeed"}}}`,
		"percentages": one(`{"Type":"Map",` + children + `,"ToleratedFailurePercentage":100,"ToleratedFailureCount":0,"End":true}`),
		"self loop":   `{"StartAt":"X","States":{"X":{` + task + `,"Catch":[{"ErrorEquals":["States.ALL"],"Next":"X"}]}}}`,
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := asl.Load([]byte(definition)); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestPlaceholders(t *testing.T) {
	definition := []byte(`{"StartAt":"X","TimeoutSeconds":${Limit},"States":{"X":{"Type":"Pass","Result":"${Text}","End":true}}}`)
	_, err := asl.Load(definition, asl.Substitute(map[string]string{"Limit": "5"}))
	var missing *asl.PlaceholderError
	if !errors.As(err, &missing) || !slices.Equal(missing.Names, []string{"Text"}) {
		t.Errorf("a placeholder without value: %v", err)
	}
	e := runWith(t, definition, asl.Substitute(map[string]string{"Limit": "5"}), asl.Derive(func(name string) string {
		return fmt.Sprintf(`<%s> "quoted"`, name)
	}))
	if got := *e.Describe().Output; got != `"<Text> \"quoted\""` {
		t.Errorf("output %s", got)
	}
}

func runWith(t *testing.T, definition []byte, options ...asl.LoadOption) *asl.Execution {
	t.Helper()
	def, err := asl.Load(definition, options...)
	if err != nil {
		t.Fatal(err)
	}
	m, err := asl.NewMachine(def, asl.Config{})
	if err != nil {
		t.Fatal(err)
	}
	e, err := m.Start(t.Context(), asl.Input{})
	if err != nil {
		t.Fatal(err)
	}
	e.Wait()
	return e
}
