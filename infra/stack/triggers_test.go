package stack_test

import (
	"encoding/json"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/lockstep-pipeline/lockstep/internal/step"
)

// input is what a schedule passes, with the buckets' names filled in.
func (tpl template) input(t *testing.T, schedule string) []byte {
	t.Helper()
	text, is := at(tpl.Resources[schedule].Properties, "Target", "Input").(string)
	if !is {
		t.Fatalf("%s has no input", schedule)
	}
	return []byte(strings.NewReplacer("${SourceBucket}", "lockstep-source", "${DestinationBucket}", "lockstep-lake", "${StateBucket}", "lockstep-state").Replace(text))
}

func TestASchedulePassesWhatTheFunctionsAccept(t *testing.T) {
	for text, schedules := range map[string][]string{shipped(t): {"WeatherSchedule"}, rich: {"SalesEuSchedule", "SalesUsSchedule"}} {
		tpl := synth(t, text)
		for _, schedule := range schedules {
			config, err := step.ParseConfig(tpl.input(t, schedule))
			if err != nil {
				t.Errorf("%s: %v", schedule, err)
			}
			if config.Trigger != "schedule" {
				t.Errorf("%s: runs would say that %q started them", schedule, config.Trigger)
			}
		}
	}
}

// What is deployed by default is what the examples, the demo and sam local
// invoke are about.
func TestTheShippedScheduleIsTheOneOfTheEvents(t *testing.T) {
	example, err := os.ReadFile("../../events/schedule.json")
	if err != nil {
		t.Fatal(err)
	}
	wanted, err := step.ParseConfig(example)
	if err != nil {
		t.Fatal(err)
	}
	got, err := step.ParseConfig(synth(t, shipped(t)).input(t, "WeatherSchedule"))
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, wanted) {
		t.Errorf("cdk.json:\n%+v\nevents/schedule.json:\n%+v", got, wanted)
	}
}

func TestSchedulesAreAsTheSettingsSay(t *testing.T) {
	shippedOne := synth(t, shipped(t)).Resources["WeatherSchedule"].Properties
	richTemplate := synth(t, rich)
	for _, c := range []struct {
		schedule               any
		expression, zone, runs string
		age                    float64
	}{
		{shippedOne, "rate(15 minutes)", "UTC", "ENABLED", 900},
		{richTemplate.Resources["SalesEuSchedule"].Properties, "cron(0 6 * * ? *)", "Europe/Berlin", "ENABLED", 3600},
		{richTemplate.Resources["SalesUsSchedule"].Properties, "rate(1 hour)", "UTC", "DISABLED", 3600},
	} {
		for name, wanted := range map[string]any{"ScheduleExpression": c.expression, "ScheduleExpressionTimezone": c.zone, "State": c.runs} {
			if got := at(c.schedule, name); got != wanted {
				t.Errorf("%s is %v, not %v", name, got, wanted)
			}
		}
		if got := at(c.schedule, "Target", "RetryPolicy", "MaximumEventAgeInSeconds"); got != c.age {
			t.Errorf("a start of %s is tried for %v s", c.expression, got)
		}
		if n, _ := at(c.schedule, "Target", "RetryPolicy", "MaximumRetryAttempts").(float64); n < 1 {
			t.Errorf("a start of %s is tried once", c.expression)
		}
		if at(c.schedule, "Target", "DeadLetterConfig", "Arn") != "${StartDeadLetters.Arn}" {
			t.Errorf("a start of %s is lost without a trace", c.expression)
		}
	}
}

// The event that EventBridge would send, against the rule's pattern.
func TestEndsThatNoCatchSeesReachTheReleaseFunction(t *testing.T) {
	golden, err := os.ReadFile("../../events/status-change.json")
	if err != nil {
		t.Fatal(err)
	}
	tpl := synth(t, shipped(t))
	pattern := at(tpl.Resources["StatusChangeRule"].Properties, "EventPattern")
	for _, c := range []struct {
		status, machine string
		matches         bool
	}{
		{"ABORTED", "${WeatherStateMachine}", true},
		{"TIMED_OUT", "${WeatherStateMachine}", true},
		{"FAILED", "${WeatherStateMachine}", true},
		{"SUCCEEDED", "${WeatherStateMachine}", false},
		{"RUNNING", "${WeatherStateMachine}", false},
		{"FAILED", "${WeatherStateMachine}/ProcessFiles", false}, // a child of the Map
		{"FAILED", "arn:aws:states:eu-central-1:123456789012:stateMachine:other", false},
	} {
		var event map[string]any
		if err := json.Unmarshal(golden, &event); err != nil {
			t.Fatal(err)
		}
		detail := event["detail"].(map[string]any)
		detail["status"], detail["stateMachineArn"] = c.status, c.machine
		if got := fits(pattern, event); got != c.matches {
			t.Errorf("%s of %s is sent to the release function: %v", c.status, c.machine, got)
		}
	}
}

// fits matches an event against a pattern of lists of values.
func fits(pattern, event any) bool {
	switch p := pattern.(type) {
	case map[string]any:
		for key := range p {
			object, is := event.(map[string]any)
			if !is || !fits(p[key], object[key]) {
				return false
			}
		}
		return true
	case []any:
		return slices.Contains(p, event)
	}
	return false
}

func TestAReleaseIsTriedAgainAndNotLost(t *testing.T) {
	tpl := synth(t, shipped(t))
	targets, _ := at(tpl.Resources["StatusChangeRule"].Properties, "Targets").([]any)
	if len(targets) != 1 || at(targets[0], "Arn") != "${ReleaseFunction.Arn}" {
		t.Fatalf("targets are %v", targets)
	}
	// From EventBridge to Lambda …
	if at(targets[0], "DeadLetterConfig", "Arn") != "${ReleaseDeadLetters.Arn}" || at(targets[0], "RetryPolicy", "MaximumRetryAttempts").(float64) < 1 {
		t.Errorf("undelivered: %v", targets[0])
	}
	// … and in Lambda's own queue, where a function that fails is asked again.
	retries := tpl.ofType("AWS::Lambda::EventInvokeConfig")
	if len(retries) != 1 {
		t.Fatalf("%d configurations of asynchronous calls", len(retries))
	}
	for _, r := range retries {
		if at(r.Properties, "FunctionName") != "${ReleaseFunction}" || at(r.Properties, "DestinationConfig", "OnFailure", "Destination") != "${ReleaseDeadLetters.Arn}" || at(r.Properties, "MaximumRetryAttempts") != 2.0 {
			t.Errorf("failed: %v", r.Properties)
		}
	}
	// The rule, and no other, may call the function and write to the queue.
	for id, p := range tpl.ofType("AWS::Lambda::Permission") {
		if at(p.Properties, "SourceArn") != "${StatusChangeRule.Arn}" || at(p.Properties, "Principal") != "events.amazonaws.com" {
			t.Errorf("%s: %v", id, p.Properties)
		}
	}
	if n := len(tpl.ofType("AWS::Lambda::Permission")); n != 1 {
		t.Errorf("%d others may call functions", n)
	}
	sends := 0
	for _, policy := range tpl.ofType("AWS::SQS::QueuePolicy") {
		for _, s := range statementsOf(t, policy.Properties["PolicyDocument"]) {
			if s.effect == "Allow" {
				sends++
				if at(s.conditions, "ArnEquals", "aws:SourceArn") != "${StatusChangeRule.Arn}" || at(s.principal, "Service") != "events.amazonaws.com" {
					t.Errorf("%v may send", s)
				}
			}
		}
	}
	if sends != 1 {
		t.Errorf("%d may send to the queues", sends)
	}
}
