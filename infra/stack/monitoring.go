package stack

import (
	"fmt"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awscloudwatch"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssns"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssqs"
	"github.com/aws/jsii-runtime-go"

	"github.com/lockstep-pipeline/lockstep/infra/settings"
	"github.com/lockstep-pipeline/lockstep/internal/step"
)

// addMonitoring makes the alarms and the dashboard that shows them.
func (b *builder) addMonitoring() awscloudwatch.Dashboard {
	var alarms []awscloudwatch.Alarm
	if b.settings.Alarms.Enabled {
		alarms = b.addAlarms()
	}
	return b.addDashboard(alarms)
}

// metric is one that the functions write, in CloudWatch's embedded format.
func metric(p *settings.Pipeline, name step.Metric, statistic, label string) awscloudwatch.IMetric {
	return awscloudwatch.NewMetric(&awscloudwatch.MetricProps{
		Namespace:     jsii.String(step.MetricNamespace),
		MetricName:    jsii.String(string(name)),
		DimensionsMap: &map[string]*string{step.MetricDimension: &p.Config.Pipeline},
		Statistic:     &statistic,
		Label:         &label,
		Period:        awscdk.Duration_Minutes(jsii.Number(5)),
	})
}

// executions is one that Step Functions writes about a pipeline's executions.
func (b *builder) executions(p *settings.Pipeline, name, label string) awscloudwatch.IMetric {
	return awscloudwatch.NewMetric(&awscloudwatch.MetricProps{
		Namespace:     jsii.String("AWS/States"),
		MetricName:    &name,
		DimensionsMap: &map[string]*string{"StateMachineArn": b.machines[p.Name].StateMachineArn()},
		Statistic:     jsii.String("Sum"),
		Label:         &label,
		Period:        awscdk.Duration_Minutes(jsii.Number(5)),
	})
}

// alarm is what the alarms have in common.
type alarm struct {
	name        string // after the stack's
	description string // what happened, and what to do
	metric      awscloudwatch.IMetric
	periods     int // of the metric's period; default 1
	operator    awscloudwatch.ComparisonOperator
	threshold   float64
	missing     awscloudwatch.TreatMissingData
}

func (b *builder) addAlarms() []awscloudwatch.Alarm {
	topic := b.alarmTopic()
	var all []awscloudwatch.Alarm
	add := func(a alarm) {
		made := awscloudwatch.NewAlarm(b.stack, jsii.String("Alarm-"+a.name), &awscloudwatch.AlarmProps{
			AlarmName:          b.name(a.name),
			AlarmDescription:   &a.description,
			Metric:             a.metric,
			EvaluationPeriods:  jsii.Number(max(1, a.periods)),
			ComparisonOperator: a.operator,
			Threshold:          &a.threshold,
			TreatMissingData:   a.missing,
		})
		// By its own property: CDK's package of actions brings the whole of EC2 along.
		resource := made.Node().DefaultChild().(awscloudwatch.CfnAlarm)
		resource.SetAlarmActions(&[]*string{topic})
		resource.SetOkActions(&[]*string{topic})
		all = append(all, made)
	}
	for p := range b.eachPipeline {
		for _, a := range b.pipelineAlarms(p) {
			add(a)
		}
	}
	add(deadLetters(b.deadRelease, "release-dead-letters",
		"An execution ended and its lock could not be given back. The lease ends by itself; the message in ReleaseDeadLetters says which execution and why."))
	add(deadLetters(b.deadStart, "start-dead-letters",
		"A scheduled run could not be started. The next one does its work; the message in StartDeadLetters says why."))
	return all
}

func (b *builder) pipelineAlarms(p *settings.Pipeline) []alarm {
	alarms := []alarm{
		{
			name:        p.Name + "-run-failed",
			description: fmt.Sprintf("A run of %s failed or ran out of time. The execution's error says why; its files are taken again by the next run.", p.Name),
			metric: expression("failed + timedOut", 5, map[string]awscloudwatch.IMetric{
				"failed":   b.executions(p, "ExecutionsFailed", "failed"),
				"timedOut": b.executions(p, "ExecutionsTimedOut", "timed out"),
			}),
			operator: awscloudwatch.ComparisonOperator_GREATER_THAN_THRESHOLD,
			missing:  awscloudwatch.TreatMissingData_NOT_BREACHING,
		},
		{
			name:        p.Name + "-quarantine",
			description: fmt.Sprintf("Files of %s failed so often that they are not tried any more. The run's summary.json names them and their errors.", p.Name),
			metric:      metric(p, step.QuarantineSize, "Maximum", "files in quarantine"),
			operator:    awscloudwatch.ComparisonOperator_GREATER_THAN_THRESHOLD,
			missing:     awscloudwatch.TreatMissingData_IGNORE, // no run, no news
		},
	}
	if minutes := p.Alarms.LockHeldMinutes; minutes > 0 {
		alarms = append(alarms, alarm{
			name:        p.Name + "-lock-held",
			description: fmt.Sprintf("A run of %s held the lock for more than %d minutes; others wait for it. The holder is named in lock.json.", p.Name, minutes),
			metric:      metric(p, step.LockHeldSeconds, "Maximum", "lock held"),
			operator:    awscloudwatch.ComparisonOperator_GREATER_THAN_THRESHOLD,
			threshold:   float64(minutes * 60),
			missing:     awscloudwatch.TreatMissingData_NOT_BREACHING,
		})
	}
	if minutes := p.NoSuccessMinutes(); minutes > 0 {
		// CloudWatch looks back over more than a day only by periods of an hour.
		period, periods := minutes, 1
		if minutes > 60 {
			period, periods = 60, (minutes+59)/60
		}
		alarms = append(alarms, alarm{
			name:        p.Name + "-no-success",
			description: fmt.Sprintf("No run of %s did its work for %d minutes (runs that only gave way to others do not count). Also raised until the first run has succeeded.", p.Name, minutes),
			metric: expression("FILL(succeeded, 0) - FILL(superseded, 0)", period, map[string]awscloudwatch.IMetric{
				"succeeded":  b.executions(p, "ExecutionsSucceeded", "succeeded"),
				"superseded": metric(p, step.RunsSuperseded, "Sum", "superseded"),
			}),
			periods:   periods,
			operator:  awscloudwatch.ComparisonOperator_LESS_THAN_THRESHOLD,
			threshold: 1,
			missing:   awscloudwatch.TreatMissingData_BREACHING,
		})
	}
	return alarms
}

func deadLetters(queue awssqs.Queue, name, description string) alarm {
	return alarm{
		name:        name,
		description: description,
		metric: queue.MetricApproximateNumberOfMessagesVisible(&awscloudwatch.MetricOptions{
			Statistic: jsii.String("Maximum"), Period: awscdk.Duration_Minutes(jsii.Number(5)),
		}),
		operator: awscloudwatch.ComparisonOperator_GREATER_THAN_THRESHOLD,
		missing:  awscloudwatch.TreatMissingData_NOT_BREACHING,
	}
}

func expression(text string, minutes int, metrics map[string]awscloudwatch.IMetric) awscloudwatch.IMetric {
	return awscloudwatch.NewMathExpression(&awscloudwatch.MathExpressionProps{
		Expression:   &text,
		UsingMetrics: &metrics,
		Period:       awscdk.Duration_Minutes(jsii.Number(minutes)),
	})
}

// alarmTopic is the topic that alarms go to.
func (b *builder) alarmTopic() *string {
	if arn := b.settings.Alarms.TopicARN; arn != "" {
		return &arn
	}
	topic := awssns.NewTopic(b.stack, jsii.String("Alarms"), &awssns.TopicProps{
		DisplayName: jsii.String("Lockstep alarms of " + b.settings.StackName),
		EnforceSSL:  jsii.Bool(true),
	})
	fixID(topic, "AlarmTopic")
	// A topic with a policy of its own lets nobody publish whom it does not name.
	topic.AddToResourcePolicy(awsiam.NewPolicyStatement(&awsiam.PolicyStatementProps{
		Sid:        jsii.String("AlarmsOfThisAccount"),
		Principals: &[]awsiam.IPrincipal{awsiam.NewServicePrincipal(jsii.String("cloudwatch.amazonaws.com"), nil)},
		Actions:    jsii.Strings("sns:Publish"),
		Resources:  &[]*string{topic.TopicArn()},
		Conditions: &map[string]any{"StringEquals": map[string]any{"aws:SourceAccount": awscdk.Aws_ACCOUNT_ID()}},
	}))
	if email := b.settings.Alarms.Email; email != "" {
		awssns.NewCfnSubscription(b.stack, jsii.String("AlarmEmail"), &awssns.CfnSubscriptionProps{
			TopicArn: topic.TopicArn(), Protocol: jsii.String("email"), Endpoint: &email,
		})
	}
	return topic.TopicArn()
}
