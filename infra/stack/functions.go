package stack

import (
	"maps"
	"path/filepath"
	"slices"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslogs"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssqs"
	"github.com/aws/jsii-runtime-go"

	"github.com/lockstep-pipeline/lockstep/infra/settings"
)

// functionNames are the folders in dist/, in the order of a run.
var functionNames = []string{"acquire", "discover", "process", "commit", "release"}

var functionTasks = map[string]string{
	"acquire":  "takes one turn at the lock",
	"discover": "finds what is new and writes the manifest",
	"process":  "turns one batch of files into Parquet",
	"commit":   "writes down what the run did",
	"release":  "gives the lock back, also for executions that no Catch saw end",
}

func (b *builder) addFunctions(architecture awslambda.Architecture) {
	for name, size := range b.settings.Functions.Each {
		b.functions[name] = b.addFunction(name, size, architecture)
	}
	b.addReleaseRetries()
}

func (b *builder) addFunction(name string, size *settings.Function, architecture awslambda.Architecture) awslambda.Function {
	id := settings.ID(name)
	logs := awslogs.NewLogGroup(b.stack, jsii.String(id+"Logs"), &awslogs.LogGroupProps{
		LogGroupName:  jsii.String("/aws/lambda/" + b.settings.StackName + "-" + name),
		Retention:     retention(b.settings.Logs.RetentionDays),
		RemovalPolicy: awscdk.RemovalPolicy_DESTROY, // its name is needed again by the next stack of this name
	})
	role := awsiam.NewRole(b.stack, jsii.String(id+"Role"), &awsiam.RoleProps{
		AssumedBy:   awsiam.NewServicePrincipal(jsii.String("lambda.amazonaws.com"), nil),
		Description: jsii.String("Lockstep " + name + ": " + functionTasks[name]),
	})
	for _, statement := range b.access(name) {
		role.AddToPrincipalPolicy(statement)
	}
	role.AddToPrincipalPolicy(allow("Logs", []string{"logs:CreateLogStream", "logs:PutLogEvents"}, []string{*logs.LogGroupArn()}, nil))

	props := &awslambda.FunctionProps{
		FunctionName:         b.name(name),
		Description:          jsii.String("Lockstep: " + functionTasks[name]),
		Runtime:              awslambda.Runtime_PROVIDED_AL2023(),
		Architecture:         architecture,
		Handler:              jsii.String("bootstrap"),
		Code:                 awslambda.Code_FromAsset(jsii.String(filepath.Join(b.files.Dist, name)), nil),
		Role:                 role,
		MemorySize:           jsii.Number(size.MemoryMB),
		EphemeralStorageSize: awscdk.Size_Mebibytes(jsii.Number(size.EphemeralStorageMB)),
		Timeout:              awscdk.Duration_Seconds(jsii.Number(size.TimeoutSeconds)),
		Environment:          b.environment(),
		LogGroup:             logs,
		LoggingFormat:        awslambda.LoggingFormat_JSON,
	}
	if size.ReservedConcurrency > 0 {
		props.ReservedConcurrentExecutions = jsii.Number(size.ReservedConcurrency)
	}
	if b.settings.Tracing {
		props.Tracing = awslambda.Tracing_ACTIVE
	}
	function := awslambda.NewFunction(b.stack, &id, props)
	fixID(function, id+"Function")
	if b.settings.VPC.Used() {
		b.intoVPC(function, role)
	}
	b.excuseFunction(role)
	return function
}

// environment is what functions/environment.go reads.
func (b *builder) environment() *map[string]*string {
	variables := map[string]string{}
	maps.Copy(variables, b.settings.Functions.Environment)
	if b.key != nil {
		variables["LOCKSTEP_S3_ENCRYPTION"] = "aws:kms"
		variables["LOCKSTEP_S3_KMS_KEY_ID"] = *b.key.KeyArn()
	}
	allMade := !slices.ContainsFunc(b.settings.Buckets(), func(bucket settings.Bucket) bool { return !bucket.Created })
	switch owner := b.settings.ExpectedBucketOwner; {
	case owner != "":
		variables["LOCKSTEP_S3_EXPECTED_OWNER"] = owner
	case allMade: // whoever gets the name after a deletion must not get the data
		variables["LOCKSTEP_S3_EXPECTED_OWNER"] = *awscdk.Aws_ACCOUNT_ID()
	}
	all := map[string]*string{}
	for name, value := range variables {
		all[name] = &value
	}
	return &all
}

// intoVPC names subnets and groups as they are: looking a VPC up needs an
// account, and the template needs only their ids.
func (b *builder) intoVPC(function awslambda.Function, role awsiam.Role) {
	function.Node().DefaultChild().(awslambda.CfnFunction).SetVpcConfig(&awslambda.CfnFunction_VpcConfigProperty{
		SubnetIds:        jsii.Strings(b.settings.VPC.SubnetIDs...),
		SecurityGroupIds: jsii.Strings(b.settings.VPC.SecurityGroupIDs...),
	})
	// Lambda makes the interfaces, under this role; they have no names before.
	// Source: Lambda developer guide, "Giving Lambda functions access to resources in an Amazon VPC".
	role.AddToPrincipalPolicy(allow("NetworkInterfaces", []string{
		"ec2:CreateNetworkInterface", "ec2:DescribeNetworkInterfaces", "ec2:DescribeSubnets", "ec2:DeleteNetworkInterface",
		"ec2:AssignPrivateIpAddresses", "ec2:UnassignPrivateIpAddresses",
	}, []string{"*"}, nil))
	// The interfaces must be allowed before the function asks for them.
	function.Node().AddDependency(role)
}

// addReleaseRetries is for events of executions that ended where no Catch sees
// it: they are tried again, and those that release failed on are kept.
func (b *builder) addReleaseRetries() {
	release := b.functions["release"]
	release.Role().AddToPrincipalPolicy(allow("DeadLetters", []string{"sqs:SendMessage"}, []string{*b.deadRelease.QueueArn()}, nil))
	awslambda.NewCfnEventInvokeConfig(b.stack, jsii.String("ReleaseRetries"), &awslambda.CfnEventInvokeConfigProps{
		FunctionName:             release.FunctionName(),
		Qualifier:                jsii.String("$LATEST"),
		MaximumRetryAttempts:     jsii.Number(2), // as many as there are
		MaximumEventAgeInSeconds: jsii.Number(releaseEventSeconds),
		DestinationConfig: &awslambda.CfnEventInvokeConfig_DestinationConfigProperty{
			OnFailure: &awslambda.CfnEventInvokeConfig_OnFailureProperty{Destination: b.deadRelease.QueueArn()},
		},
	})
}

// addDeadLetterQueues takes what could not be delivered, each kind apart: a
// lost start is made good by the next one, a lost release holds the lock until
// the lease ends.
func (b *builder) addDeadLetterQueues() {
	add := func(id string) awssqs.Queue {
		queue := awssqs.NewQueue(b.stack, &id, &awssqs.QueueProps{
			EnforceSSL:      jsii.Bool(true),
			Encryption:      awssqs.QueueEncryption_SQS_MANAGED,
			RetentionPeriod: awscdk.Duration_Days(jsii.Number(14)),
		})
		fixID(queue, id)
		b.excuseDeadLetters(queue)
		return queue
	}
	b.deadStart = add("StartDeadLetters")
	b.deadRelease = add("ReleaseDeadLetters")
}

// retention finds CDK's word for a term.
func retention(days int) awslogs.RetentionDays {
	return map[int]awslogs.RetentionDays{
		1: awslogs.RetentionDays_ONE_DAY, 3: awslogs.RetentionDays_THREE_DAYS, 5: awslogs.RetentionDays_FIVE_DAYS,
		7: awslogs.RetentionDays_ONE_WEEK, 14: awslogs.RetentionDays_TWO_WEEKS, 30: awslogs.RetentionDays_ONE_MONTH,
		60: awslogs.RetentionDays_TWO_MONTHS, 90: awslogs.RetentionDays_THREE_MONTHS, 120: awslogs.RetentionDays_FOUR_MONTHS,
		150: awslogs.RetentionDays_FIVE_MONTHS, 180: awslogs.RetentionDays_SIX_MONTHS, 365: awslogs.RetentionDays_ONE_YEAR,
		400: awslogs.RetentionDays_THIRTEEN_MONTHS, 545: awslogs.RetentionDays_EIGHTEEN_MONTHS, 731: awslogs.RetentionDays_TWO_YEARS,
		1096: awslogs.RetentionDays_THREE_YEARS, 1827: awslogs.RetentionDays_FIVE_YEARS, 2192: awslogs.RetentionDays_SIX_YEARS,
		2557: awslogs.RetentionDays_SEVEN_YEARS, 2922: awslogs.RetentionDays_EIGHT_YEARS, 3288: awslogs.RetentionDays_NINE_YEARS,
		3653: awslogs.RetentionDays_TEN_YEARS,
	}[days]
}
