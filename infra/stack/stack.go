// Package stack is Lockstep on AWS, as one CloudFormation stack: the five
// functions, a state machine for each pipeline, the buckets that do not exist
// yet, what starts and what cleans up after runs, and what tells people.
//
// It promises that each role can do what its code does and no more, that the
// lock and the ledger's head cannot be written without a condition in buckets
// that the stack makes, that no event is lost without a trace, and that data
// outlives the stack. What it is told comes from package settings.
//
// Logical ids of what holds data or is spoken of elsewhere are written out:
// moving code between files must not replace a bucket.
package stack

import (
	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awskms"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/aws-cdk-go/awscdk/v2/awss3"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssqs"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsstepfunctions"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"

	"github.com/lockstep-pipeline/lockstep/infra/settings"
)

// Files are what the stack is made of, beside its settings.
type Files struct {
	// Dist is the folder that "make build" fills: <function>/bootstrap.
	Dist string
	// Definition is the path of statemachine.asl.json.
	Definition string
}

// builder carries what one concern makes for the others.
type builder struct {
	stack    awscdk.Stack
	settings *settings.Settings
	files    Files

	key         awskms.IKey              // nil: each bucket's own encryption
	buckets     map[string]awss3.IBucket // by the name in the settings
	generated   map[string]awss3.IBucket // those of them that AWS names
	deadRelease awssqs.Queue
	deadStart   awssqs.Queue
	functions   map[string]awslambda.Function
	machines    map[string]awsstepfunctions.StateMachine // by pipeline
}

// New adds the stack to an app.
func New(scope constructs.Construct, set *settings.Settings, files Files) (awscdk.Stack, error) {
	architecture, err := architectureOf(files.Dist, set.Architecture)
	if err != nil {
		return nil, err
	}
	machine, err := settings.ReadMachine()
	if err != nil {
		return nil, err
	}
	b := &builder{
		stack: awscdk.NewStack(scope, &set.StackName, &awscdk.StackProps{
			StackName:   &set.StackName,
			Description: jsii.String("Lockstep: new files of S3 prefixes, one run at a time"),
		}),
		settings:  set,
		files:     files,
		buckets:   map[string]awss3.IBucket{},
		generated: map[string]awss3.IBucket{},
		functions: map[string]awslambda.Function{},
		machines:  map[string]awsstepfunctions.StateMachine{},
	}
	b.addKey()
	b.addBuckets()
	b.addDeadLetterQueues()
	b.addFunctions(architecture)
	b.addMachines()
	b.addSchedules()
	b.addStatusChangeRule()
	dashboard := b.addMonitoring()
	b.addOutputs(dashboard)
	for _, warning := range set.Warnings(machine) {
		awscdk.Annotations_Of(b.stack).AddWarningV2(jsii.String("lockstep:settings"), &warning, nil)
	}
	return b.stack, nil
}

// name is <stack>-<suffix>, the name of something of this stack.
func (b *builder) name(suffix string) *string {
	return jsii.String(b.settings.StackName + "-" + suffix)
}

// eachPipeline yields the pipelines in the order of their names.
func (b *builder) eachPipeline(yield func(p *settings.Pipeline) bool) {
	for _, name := range b.settings.PipelineNames() {
		if !yield(b.settings.Pipelines[name]) {
			return
		}
	}
}

// fixID writes out the logical id of a construct's resource.
func fixID(c constructs.Construct, id string) {
	c.Node().DefaultChild().(awscdk.CfnResource).OverrideLogicalId(&id)
}

// arn is that of something in this account and Region whose name is known
// before it exists, so that policies about it need not wait for it.
func (b *builder) arn(service, resource, name string) *string {
	return b.stack.FormatArn(&awscdk.ArnComponents{
		Service:      &service,
		Resource:     &resource,
		ResourceName: &name,
		ArnFormat:    awscdk.ArnFormat_COLON_RESOURCE_NAME,
	})
}
