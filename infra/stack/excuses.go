package stack

import (
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/aws-cdk-go/awscdk/v2/awss3"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssqs"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"
	"github.com/cdklabs/cdk-nag-go/cdknag/v2"
)

// This file answers cdk-nag, rule by rule, where the stack does otherwise. The
// answers stay in the template, so that whoever runs the rules over it sees
// them.

// anExcuse is why a rule is not kept. findings are patterns of those that it is
// for; none means all.
type anExcuse struct {
	rule, reason string
	findings     []string
}

func excuse(scope constructs.IConstruct, excuses ...anExcuse) {
	var all []*cdknag.NagPackSuppression
	for _, e := range excuses {
		s := &cdknag.NagPackSuppression{Id: &e.rule, Reason: &e.reason}
		if len(e.findings) > 0 {
			var patterns []any
			for _, f := range e.findings {
				patterns = append(patterns, &cdknag.RegexAppliesTo{Regex: jsii.String("/^Resource::" + f + "$/")})
			}
			s.AppliesTo = &patterns
		}
		all = append(all, s)
	}
	cdknag.NagSuppressions_AddResourceSuppressions(scope, &all, jsii.Bool(true))
}

// folders excuses the wildcard at the end of a key, and the one in place of a
// run's name.
var folders = anExcuse{
	"AwsSolutions-IAM5", "The names of the objects in a folder of the pipeline are not known before. The folder is written out.",
	[]string{`arn:.+:s3:::[^/*]+\/.+`},
}

var executions = anExcuse{
	"AwsSolutions-IAM5", "Executions get their names when they start. The state machine is written out.",
	[]string{`arn:.+:states:.*:execution:[^*]+[:\/]\*`},
}

func (b *builder) excuseBucket(bucket awss3.Bucket) {
	if b.settings.AccessLogBucket == "" {
		excuse(bucket, anExcuse{rule: "AwsSolutions-S1", reason: "Where access logs go is for the account to say: accessLogBucket. A lock alone would write thousands of lines a day."})
	}
}

func (b *builder) excuseFunction(role awsiam.Role) {
	why := "X-Ray takes traces from anybody in the account; it has no resources to name."
	if b.settings.VPC.Used() {
		why += " Neither have the network interfaces that Lambda makes for the function in its VPC."
	}
	excuse(role, folders, anExcuse{"AwsSolutions-IAM5", why, []string{`\*`}})
}

func (b *builder) excuseMachine(role awsiam.Role) {
	excuse(role, folders, executions, anExcuse{
		"AwsSolutions-IAM5", "X-Ray and the delivery of logs have no resources to name. Source: Step Functions developer guide, \"Logging using CloudWatch Logs\".",
		[]string{`\*`},
	})
}

func (b *builder) excuseDeadLetters(queue awssqs.Queue) {
	excuse(queue, anExcuse{rule: "AwsSolutions-SQS3", reason: "It is the dead-letter queue, of EventBridge and Lambda; the rule looks for queues that say so."})
}
