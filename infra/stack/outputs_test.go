package stack_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/lockstep-pipeline/lockstep/internal/step"
)

func TestAToolFindsADeployedPipelineByItsOutputs(t *testing.T) {
	for text, ids := range map[string]map[string]string{
		shipped(t): {"Weather": "weather"},
		rich:       {"SalesEu": "sales-eu", "SalesUs": "sales-us"},
	} {
		tpl := synth(t, text)
		for id, name := range ids {
			if got := plain(tpl.Outputs[id+"StateMachineArn"].Value); got != "${"+id+"StateMachine}" {
				t.Errorf("%s: the state machine is %v", name, got)
			}
			run, _ := plain(tpl.Outputs[id+"Run"].Value).(string)
			filled := strings.NewReplacer("${SourceBucket}", "a", "${DestinationBucket}", "b", "${StateBucket}", "c").Replace(run)
			config, err := step.ParseConfig([]byte(filled))
			if err != nil || config.Pipeline != name {
				t.Errorf("%s: the run configuration is of %q: %v", name, config.Pipeline, err)
			}
			if scheduled := at(tpl.Resources[id+"Schedule"].Properties, "Target", "Input"); scheduled != run {
				t.Errorf("%s: the schedule passes something else:\n%v\n%v", name, scheduled, run)
			}
		}
	}
}

func TestPeopleFindTheConsole(t *testing.T) {
	tpl := synth(t, shipped(t))
	for output, wanted := range map[string]string{
		"DashboardURL":           "#dashboards/dashboard/${Dashboard}",
		"WeatherStateMachineURL": "#/statemachines/view/arn:${AWS::Partition}:states:${AWS::Region}:${AWS::AccountId}:stateMachine:lockstep-weather",
		"WeatherSourceURL":       "/s3/buckets/${SourceBucket}?region=${AWS::Region}&prefix=incoming/",
		"WeatherDestinationURL":  "/s3/buckets/${DestinationBucket}?region=${AWS::Region}&prefix=parquet/",
		"WeatherStateURL":        "/s3/buckets/${StateBucket}?region=${AWS::Region}&prefix=weather/",
	} {
		got := fmt.Sprint(plain(tpl.Outputs[output].Value))
		if !strings.HasPrefix(got, "https://${AWS::Region}.console.aws.amazon.com/") || !strings.HasSuffix(got, wanted) {
			t.Errorf("%s is %s", output, got)
		}
	}
}

// Names that others rely on, or that hold data: another logical id would be
// another resource, and an empty one.
func TestLogicalIDsStay(t *testing.T) {
	tpl := synth(t, shipped(t))
	for id, kind := range map[string]string{
		"SourceBucket": "AWS::S3::Bucket", "DestinationBucket": "AWS::S3::Bucket", "StateBucket": "AWS::S3::Bucket",
		"AcquireFunction": "AWS::Lambda::Function", "WeatherStateMachine": "AWS::StepFunctions::StateMachine", "WeatherSchedule": "AWS::Scheduler::Schedule",
		"StatusChangeRule": "AWS::Events::Rule", "StartDeadLetters": "AWS::SQS::Queue", "ReleaseDeadLetters": "AWS::SQS::Queue",
		"AlarmTopic": "AWS::SNS::Topic", "Dashboard": "AWS::CloudWatch::Dashboard",
	} {
		if got := tpl.Resources[id].Type; got != kind {
			t.Errorf("%s is %q, not %s", id, got, kind)
		}
	}
	if named := synth(t, rich).ofType("AWS::S3::Bucket"); len(named) != 1 || at(only(t, named).Properties, "BucketName") != "acme-state" {
		t.Errorf("buckets are %v", named)
	}
}
