package stack_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/lockstep-pipeline/lockstep/internal/step"
)

func TestEveryAlarmHasAnAction(t *testing.T) {
	for name, text := range map[string]string{"shipped": shipped(t), "rich": rich} {
		tpl := synth(t, text)
		for id, a := range tpl.ofType("AWS::CloudWatch::Alarm") {
			for _, actions := range []string{"AlarmActions", "OKActions"} {
				if got := texts(at(a.Properties, actions)); !slices.Equal(got, []string{"${AlarmTopic}"}) {
					t.Errorf("%s: %s has %s %v", name, id, actions, got)
				}
			}
			if at(a.Properties, "AlarmDescription") == nil || at(a.Properties, "ActionsEnabled") == false {
				t.Errorf("%s: %s tells nobody what to do", name, id)
			}
		}
	}
	if endpoint := only(t, synth(t, rich).ofType("AWS::SNS::Subscription")).Properties["Endpoint"]; endpoint != "oncall@example.com" {
		t.Errorf("alarms go to %v", endpoint)
	}
}

func only(t *testing.T, resources map[string]resource) resource {
	t.Helper()
	if len(resources) != 1 {
		t.Fatalf("%d resources where there should be one", len(resources))
	}
	for _, r := range resources {
		return r
	}
	panic("unreachable")
}

// A topic with a policy refuses everybody whom it does not name: CloudWatch's
// alarms would be lost without a word.
func TestCloudWatchMayPublishAlarms(t *testing.T) {
	policy := only(t, synth(t, shipped(t)).ofType("AWS::SNS::TopicPolicy"))
	statements := statementsOf(t, policy.Properties["PolicyDocument"])
	if !slices.ContainsFunc(statements, func(s statement) bool {
		return s.effect == "Allow" && at(s.principal, "Service") == "cloudwatch.amazonaws.com" && slices.Contains(s.actions, "sns:Publish") &&
			at(s.conditions, "StringEquals", "aws:SourceAccount") == "${AWS::AccountId}"
	}) {
		t.Errorf("it may not: %v", statements)
	}
}

func TestWhatHurtsRaisesAnAlarm(t *testing.T) {
	alarms := map[string]resource{}
	for _, text := range []string{shipped(t), rich} {
		for _, a := range synth(t, text).ofType("AWS::CloudWatch::Alarm") {
			alarms[at(a.Properties, "AlarmName").(string)] = a
		}
	}
	for name, c := range map[string]struct {
		speaksOf, missing string
		threshold         float64
		seconds           float64 // looked back over
	}{
		"lockstep-weather-run-failed":   {"ExecutionsFailed", "notBreaching", 0, 300},
		"lockstep-weather-no-success":   {"ExecutionsSucceeded", "breaching", 1, 3600},
		"lockstep-weather-lock-held":    {"LockHeldSeconds", "notBreaching", 3600, 300},
		"lockstep-weather-quarantine":   {"QuarantineSize", "ignore", 0, 300},
		"lockstep-release-dead-letters": {"ApproximateNumberOfMessagesVisible", "notBreaching", 0, 300},
		"lockstep-start-dead-letters":   {"ApproximateNumberOfMessagesVisible", "notBreaching", 0, 300},
		"acme-sales-eu-no-success":      {"ExecutionsSucceeded", "breaching", 1, 2 * 86400},
	} {
		a, is := alarms[name]
		if !is {
			t.Errorf("%s: there is none", name)
			continue
		}
		text, _ := json.Marshal(a.Properties)
		if !strings.Contains(string(text), `"`+c.speaksOf+`"`) {
			t.Errorf("%s is not about %s", name, c.speaksOf)
		}
		if at(a.Properties, "TreatMissingData") != c.missing || at(a.Properties, "Threshold") != c.threshold {
			t.Errorf("%s: missing %v, threshold %v", name, at(a.Properties, "TreatMissingData"), at(a.Properties, "Threshold"))
		}
		if got := lookback(a); got != c.seconds {
			t.Errorf("%s looks back over %v s, not %v", name, got, c.seconds)
		}
	}
	if _, is := alarms["acme-sales-us-no-success"]; is {
		t.Error("a pipeline without a schedule is expected to run")
	}
}

// lookback is periods times their length.
func lookback(a resource) float64 {
	period, _ := at(a.Properties, "Period").(float64)
	if metrics, is := at(a.Properties, "Metrics").([]any); is {
		for _, m := range metrics {
			if p, is := at(m, "MetricStat", "Period").(float64); is {
				period = max(period, p)
			}
		}
	}
	return period * at(a.Properties, "EvaluationPeriods").(float64)
}

func TestAlarmsCanBeLeftOut(t *testing.T) {
	tpl := synth(t, strings.Replace(shipped(t), `"stackName"`, `"alarms": {"enabled": false}, "stackName"`, 1))
	for _, kind := range []string{"AWS::CloudWatch::Alarm", "AWS::SNS::Topic", "AWS::SNS::TopicPolicy"} {
		if n := len(tpl.ofType(kind)); n > 0 {
			t.Errorf("%d %s are left", n, kind)
		}
	}
	if len(tpl.ofType("AWS::CloudWatch::Dashboard")) != 1 {
		t.Error("the dashboard went with them")
	}
}

func TestAlarmsGoToAnExistingTopic(t *testing.T) {
	const topic = "arn:aws:sns:eu-central-1:123456789012:alarms"
	tpl := synth(t, strings.Replace(shipped(t), `"stackName"`, `"alarms": {"topicArn": "`+topic+`"}, "stackName"`, 1))
	if n := len(tpl.ofType("AWS::SNS::Topic")); n > 0 {
		t.Error("there is another topic")
	}
	for id, a := range tpl.ofType("AWS::CloudWatch::Alarm") {
		if got := texts(at(a.Properties, "AlarmActions")); !slices.Equal(got, []string{topic}) {
			t.Errorf("%s goes to %v", id, got)
		}
	}
}

func TestTheDashboardShowsEachMetricOfEachPipeline(t *testing.T) {
	for text, pipelines := range map[string][]string{shipped(t): {"weather"}, rich: {"sales-eu", "sales-us"}} {
		board := only(t, synth(t, text).ofType("AWS::CloudWatch::Dashboard"))
		body, _ := at(board.Properties, "DashboardBody").(string)
		for _, pipeline := range pipelines {
			for _, name := range step.Metrics {
				if name == step.RunsSucceeded { // Step Functions' own count is shown
					continue
				}
				if wanted := fmt.Sprintf(`"Lockstep","%s","Pipeline","%s"`, name, pipeline); !strings.Contains(body, wanted) {
					t.Errorf("there is no %s", wanted)
				}
			}
		}
		// Valid JSON once the names are filled in, and within the grid.
		var parsed struct {
			Widgets []struct{ X, Width int }
		}
		if err := json.Unmarshal([]byte(strings.NewReplacer("${", "", "}\"", "\"").Replace(body)), &parsed); err != nil {
			t.Logf("body: %s", body)
			t.Errorf("the dashboard is no JSON: %v", err)
		}
		for _, w := range parsed.Widgets {
			if w.X+w.Width > 24 {
				t.Errorf("a widget ends at column %d of 24", w.X+w.Width)
			}
		}
	}
}
