package stack

import (
	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslogs"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsstepfunctions"
	"github.com/aws/jsii-runtime-go"

	lockstep "github.com/lockstep-pipeline/lockstep"
	"github.com/lockstep-pipeline/lockstep/infra/settings"
	"github.com/lockstep-pipeline/lockstep/internal/step"
)

// addMachines makes a state machine for each pipeline: its executions and
// their metrics are then the pipeline's own, and the bucket that the Map writes
// to is a literal in the definition.
func (b *builder) addMachines() {
	for p := range b.eachPipeline {
		b.machines[p.Name] = b.addMachine(p)
	}
}

func (b *builder) addMachine(p *settings.Pipeline) awsstepfunctions.StateMachine {
	id := settings.ID(p.Name)
	logs := awslogs.NewLogGroup(b.stack, jsii.String(id+"Logs"), &awslogs.LogGroupProps{
		// Groups of this name need no place in the account's log policy, which is short.
		// Source: Step Functions developer guide, "Logging using CloudWatch Logs".
		LogGroupName:  jsii.String("/aws/vendedlogs/states/" + *b.name(p.Name)),
		Retention:     retention(b.settings.Logs.RetentionDays),
		RemovalPolicy: awscdk.RemovalPolicy_DESTROY,
	})
	role := awsiam.NewRole(b.stack, jsii.String(id+"Role"), &awsiam.RoleProps{
		AssumedBy: awsiam.NewServicePrincipal(jsii.String("states.amazonaws.com"), &awsiam.ServicePrincipalOpts{
			// State machines of other accounts must not be able to have it used.
			Conditions: &map[string]any{"StringEquals": map[string]any{"aws:SourceAccount": awscdk.Aws_ACCOUNT_ID()}},
		}),
		Description: jsii.String("Lockstep state machine of pipeline " + p.Name),
	})
	config := p.Config
	config.State.Bucket = b.bucketName(config.State.Bucket)
	substitutions := map[string]*string{}
	for name, value := range step.Substitutions(config) {
		substitutions[name] = &value
	}
	var callees []string
	for _, name := range functionNames {
		arn := *b.functions[name].FunctionArn()
		substitutions[settings.FunctionVariable(name)] = &arn
		callees = append(callees, arn)
	}
	for _, statement := range b.machineAccess(p, callees) {
		role.AddToPrincipalPolicy(statement)
	}
	machine := awsstepfunctions.NewStateMachine(b.stack, &id, &awsstepfunctions.StateMachineProps{
		StateMachineName:        b.name(p.Name),
		StateMachineType:        awsstepfunctions.StateMachineType_STANDARD,
		DefinitionBody:          b.definition(),
		DefinitionSubstitutions: &substitutions,
		Role:                    role,
		TracingEnabled:          &b.settings.Tracing,
		Logs: &awsstepfunctions.LogOptions{
			Destination:          logs,
			Level:                awsstepfunctions.LogLevel_ALL,
			IncludeExecutionData: &b.settings.Logs.ExecutionData,
		},
	})
	fixID(machine, id+"StateMachine")
	b.excuseMachine(role)
	return machine
}

func (b *builder) definition() awsstepfunctions.DefinitionBody {
	if b.settings.InlineDefinition {
		return awsstepfunctions.DefinitionBody_FromString(jsii.String(string(lockstep.Definition)))
	}
	return awsstepfunctions.DefinitionBody_FromFile(&b.files.Definition, nil)
}

// machineAccess is what the state machine does itself: call the functions,
// read the manifest, write the Map's results, and start its children.
func (b *builder) machineAccess(p *settings.Pipeline, callees []string) []awsiam.PolicyStatement {
	at, state, machine := b.keys(p), p.Config.State.Bucket, *b.name(p.Name)
	return append([]awsiam.PolicyStatement{
		allow("CallFunctions", []string{"lambda:InvokeFunction"}, unique(callees), nil),
		allow("ReadManifest", []string{"s3:GetObject"}, []string{b.objects(state, at.manifests)}, nil),
		allow("WriteMapResults", []string{"s3:PutObject", "s3:GetObject", "s3:ListMultipartUploadParts", "s3:AbortMultipartUpload"},
			[]string{b.objects(state, at.runs+"*/map/*")}, nil),
		// The children of a Distributed Map are executions that it starts, stops
		// and redrives by its own role. The names are known, so the role does not
		// wait for the state machine that waits for it.
		// Source: Step Functions developer guide, "IAM policies for using Distributed Map states".
		allow("StartChildren", []string{"states:StartExecution"}, []string{*b.arn("states", "stateMachine", machine)}, nil),
		allow("FollowChildren", []string{"states:DescribeExecution", "states:StopExecution", "states:RedriveExecution"},
			[]string{*b.arn("states", "execution", machine+":*"), *b.arn("states", "execution", machine+"/*")}, nil),
	}, b.keyAccess(false)...)
}
