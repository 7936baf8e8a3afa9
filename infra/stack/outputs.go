package stack

import (
	"fmt"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awscloudwatch"
	"github.com/aws/jsii-runtime-go"

	"github.com/lockstep-pipeline/lockstep/infra/settings"
)

// addOutputs tells people where to look and tools what was deployed. Their
// names are a contract: <Pipeline>StateMachineArn and <Pipeline>Run are what a
// tool needs to start a run and to find a pipeline's lock and ledger.
func (b *builder) addOutputs(dashboard awscloudwatch.Dashboard) {
	output := func(id, description, value string) {
		awscdk.NewCfnOutput(b.stack, jsii.String("Output"+id), &awscdk.CfnOutputProps{
			Description: &description, Value: &value,
		}).OverrideLogicalId(&id)
	}
	output("DashboardURL", "Is anything wrong?", fmt.Sprintf("%s/cloudwatch/home?region=%s#dashboards/dashboard/%s",
		console(), *awscdk.Aws_REGION(), *dashboard.DashboardName()))
	for p := range b.eachPipeline {
		id := settings.ID(p.Name)
		output(id+"StateMachineArn", "The state machine of pipeline "+p.Name, *b.machines[p.Name].StateMachineArn())
		output(id+"StateMachineURL", "Executions of pipeline "+p.Name, b.machineURL(p))
		output(id+"Run", "The run configuration that the schedule of pipeline "+p.Name+" passes, as JSON", b.input(p))
		for _, place := range p.Places() {
			output(id+settings.ID(place.Role)+"URL", "The "+place.Role+" of pipeline "+p.Name, fmt.Sprintf("%s/s3/buckets/%s?region=%s&prefix=%s",
				console(), b.bucketName(place.At.Bucket), *awscdk.Aws_REGION(), place.At.Prefix))
		}
	}
	output("StartDeadLettersURL", "Queue of runs that could not be started", *b.deadStart.QueueUrl())
	output("ReleaseDeadLettersURL", "Queue of ended executions whose lock could not be given back", *b.deadRelease.QueueUrl())
}

func console() string {
	return "https://" + *awscdk.Aws_REGION() + ".console.aws.amazon.com"
}

func (b *builder) machineURL(p *settings.Pipeline) string {
	return fmt.Sprintf("%s/states/home?region=%s#/statemachines/view/%s", console(), *awscdk.Aws_REGION(), *b.arn("states", "stateMachine", *b.name(p.Name)))
}
