package stack

import (
	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsevents"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsscheduler"
	"github.com/aws/jsii-runtime-go"

	"github.com/lockstep-pipeline/lockstep/infra/settings"
)

// addSchedules starts runs. EventBridge Scheduler, and not a rule, because it
// has time zones.
func (b *builder) addSchedules() {
	group := awsscheduler.NewCfnScheduleGroup(b.stack, jsii.String("Schedules"), &awsscheduler.CfnScheduleGroupProps{
		Name: &b.settings.StackName,
	})
	role := awsiam.NewRole(b.stack, jsii.String("SchedulerRole"), &awsiam.RoleProps{
		Description: jsii.String("Lockstep: starts runs on schedule"),
		AssumedBy: awsiam.NewServicePrincipal(jsii.String("scheduler.amazonaws.com"), &awsiam.ServicePrincipalOpts{
			// Schedules of this stack alone may use it.
			Conditions: &map[string]any{"StringEquals": map[string]any{
				"aws:SourceAccount": awscdk.Aws_ACCOUNT_ID(),
				"aws:SourceArn":     b.stack.FormatArn(&awscdk.ArnComponents{Service: jsii.String("scheduler"), Resource: jsii.String("schedule-group"), ResourceName: &b.settings.StackName}),
			}},
		}),
	})
	var machines []string
	for p := range b.eachPipeline {
		machines = append(machines, *b.machines[p.Name].StateMachineArn())
	}
	role.AddToPrincipalPolicy(allow("StartRuns", []string{"states:StartExecution"}, machines, nil))
	role.AddToPrincipalPolicy(allow("DeadLetters", []string{"sqs:SendMessage"}, []string{*b.deadStart.QueueArn()}, nil))
	for p := range b.eachPipeline {
		b.addSchedule(p, group, role)
	}
}

func (b *builder) addSchedule(p *settings.Pipeline, group awsscheduler.CfnScheduleGroup, role awsiam.Role) {
	state := "ENABLED"
	if !p.Schedule.Enabled {
		state = "DISABLED"
	}
	schedule := awsscheduler.NewCfnSchedule(b.stack, jsii.String(settings.ID(p.Name)+"Schedule"), &awsscheduler.CfnScheduleProps{
		Name:                       b.name(p.Name),
		GroupName:                  group.Ref(),
		Description:                jsii.String("Starts runs of pipeline " + p.Name),
		ScheduleExpression:         &p.Schedule.Expression,
		ScheduleExpressionTimezone: &p.Schedule.TimeZone,
		State:                      &state,
		FlexibleTimeWindow:         &awsscheduler.CfnSchedule_FlexibleTimeWindowProperty{Mode: jsii.String("OFF")},
		Target: &awsscheduler.CfnSchedule_TargetProperty{
			Arn:     b.machines[p.Name].StateMachineArn(),
			RoleArn: role.RoleArn(),
			Input:   jsii.String(b.input(p)),
			RetryPolicy: &awsscheduler.CfnSchedule_RetryPolicyProperty{
				MaximumRetryAttempts:     jsii.Number(20),
				MaximumEventAgeInSeconds: jsii.Number(startSeconds(p)),
			},
			DeadLetterConfig: &awsscheduler.CfnSchedule_DeadLetterConfigProperty{Arn: b.deadStart.QueueArn()},
		},
	})
	// A start before its role may do anything would be lost.
	schedule.Node().AddDependency(role)
	schedule.OverrideLogicalId(jsii.String(settings.ID(p.Name) + "Schedule"))
}

// input is the run configuration with the buckets' real names.
func (b *builder) input(p *settings.Pipeline) string { return string(p.Input(b.bucketName)) }

// startSeconds is how long a start is worth another try: until the next one is
// due, which does the same work, and an hour at most.
func startSeconds(p *settings.Pipeline) int {
	const longest = 3600
	if interval := int(p.Schedule.Interval().Seconds()); interval > 0 {
		return min(interval, longest)
	}
	return longest
}

// releaseEventSeconds is how long a status change is worth another try. A lease
// lasts an hour at most, so by then the lock is free.
const releaseEventSeconds = 3600

// addStatusChangeRule sends ends that no Catch sees to the release function.
// Children of a Distributed Map are executions of another state machine,
// <machine>/<label>, so they are not meant.
func (b *builder) addStatusChangeRule() {
	machines := []*string{}
	for p := range b.eachPipeline {
		machines = append(machines, b.machines[p.Name].StateMachineArn())
	}
	release := b.functions["release"]
	rule := awsevents.NewCfnRule(b.stack, jsii.String("StatusChange"), &awsevents.CfnRuleProps{
		Name:        b.name("status-change"),
		Description: jsii.String("Executions that were aborted, timed out or failed: their lock is given back"),
		EventPattern: map[string]any{
			"source":      []string{"aws.states"},
			"detail-type": []string{"Step Functions Execution Status Change"},
			"detail": map[string]any{
				"status":          []string{"ABORTED", "TIMED_OUT", "FAILED"},
				"stateMachineArn": machines,
			},
		},
		Targets: []any{&awsevents.CfnRule_TargetProperty{
			Id:  jsii.String("release"),
			Arn: release.FunctionArn(),
			RetryPolicy: &awsevents.CfnRule_RetryPolicyProperty{
				MaximumRetryAttempts:     jsii.Number(60),
				MaximumEventAgeInSeconds: jsii.Number(releaseEventSeconds),
			},
			DeadLetterConfig: &awsevents.CfnRule_DeadLetterConfigProperty{Arn: b.deadRelease.QueueArn()},
		}},
	})
	rule.OverrideLogicalId(jsii.String("StatusChangeRule"))
	release.AddPermission(jsii.String("StatusChange"), &awslambda.Permission{
		Principal: awsiam.NewServicePrincipal(jsii.String("events.amazonaws.com"), nil),
		SourceArn: rule.AttrArn(),
	})
	b.deadRelease.AddToResourcePolicy(awsiam.NewPolicyStatement(&awsiam.PolicyStatementProps{
		Sid:        jsii.String("UndeliveredStatusChanges"),
		Principals: &[]awsiam.IPrincipal{awsiam.NewServicePrincipal(jsii.String("events.amazonaws.com"), nil)},
		Actions:    jsii.Strings("sqs:SendMessage"),
		Resources:  &[]*string{b.deadRelease.QueueArn()},
		Conditions: &map[string]any{"ArnEquals": map[string]any{"aws:SourceArn": rule.AttrArn()}},
	}))
}
