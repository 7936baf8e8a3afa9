package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/arn"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation/types"
	"github.com/aws/aws-sdk-go-v2/service/sfn"

	"github.com/lockstep-pipeline/lockstep/internal/step"
)

// awsFlags say which AWS a command talks to.
type awsFlags struct {
	EndpointURL string `group:"AWS" name:"endpoint-url" placeholder:"URL" help:"One server for all services instead of AWS, such as an emulator; else AWS_ENDPOINT_URL or AWS_ENDPOINT_URL_<SERVICE>, or the profile's."`
	Region      string `group:"AWS" placeholder:"NAME" help:"Region of the stack; else that of an ARN, AWS_REGION or the profile's."`
	Profile     string `group:"AWS" placeholder:"NAME" help:"Profile of the AWS configuration files; else AWS_PROFILE."`
}

// aws are the flags for the stack that a bucket belongs to.
func (f s3Flags) aws() awsFlags {
	return awsFlags{EndpointURL: f.EndpointURL, Region: f.Region, Profile: f.Profile}
}

// at takes the Region from an ARN, unless there is one.
func (f awsFlags) at(name string) awsFlags {
	if parsed, err := arn.Parse(name); err == nil && f.Region == "" {
		f.Region = parsed.Region
	}
	return f
}

// cloudFormation returns a client. It does not dial.
func (f awsFlags) cloudFormation(ctx context.Context) (*cloudformation.Client, error) {
	settings, err := loadAWS(ctx, f.Profile, f.Region)
	if err != nil {
		return nil, err
	}
	client := cloudformation.NewFromConfig(settings, func(o *cloudformation.Options) { place(f.EndpointURL, &o.BaseEndpoint, &o.Region) })
	return client, regionKnown("CloudFormation", client.Options().Region)
}

// stepFunctions returns a client. It does not dial.
func (f awsFlags) stepFunctions(ctx context.Context) (*sfn.Client, error) {
	settings, err := loadAWS(ctx, f.Profile, f.Region)
	if err != nil {
		return nil, err
	}
	client := sfn.NewFromConfig(settings, func(o *sfn.Options) { place(f.EndpointURL, &o.BaseEndpoint, &o.Region) })
	return client, regionKnown("Step Functions", client.Options().Region)
}

// stackFlags name a pipeline of a stack that was deployed.
type stackFlags struct {
	Stack    string `placeholder:"NAME" help:"A deployed stack, by its name or ARN; its outputs say what is where."`
	Pipeline string `placeholder:"NAME" help:"Which pipeline of the stack; not needed where there is one."`
}

// named is the pipeline as it was named on the command line, for a shell.
func (f stackFlags) named() string {
	name := "--stack " + shellWord(f.Stack)
	if f.Pipeline != "" {
		name += " --pipeline " + shellWord(f.Pipeline)
	}
	return name
}

var errOfStack = errors.New("--pipeline names one of the pipelines of a stack: give --stack, too")

// pipelineOutputs are what a stack's outputs tell of one of its pipelines. How
// they are called is a contract with the CDK app, infra/stack/outputs.go.
type pipelineOutputs struct {
	Name    string          // as in its run configuration
	ID      string          // what the names of its outputs begin with
	Machine string          // ARN of the state machine
	Run     json.RawMessage // the run configuration that its schedule passes
}

// config is the run configuration that the schedule passes.
func (p pipelineOutputs) config() (step.RunConfig, error) {
	config, err := step.ParseConfig(p.Run)
	if err != nil {
		return step.RunConfig{}, fmt.Errorf("output %sRun of the stack, which another version may have deployed: %w", p.ID, err)
	}
	return config, nil
}

// usageError is what a person can put right on the command line.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// explainAWS says why something could not be had from AWS.
func explainAWS(ctx context.Context, w io.Writer, err error) error {
	var usage usageError
	switch {
	case ctx.Err() != nil:
		fmt.Fprintln(w, "lockstep: interrupted")
		return exitCode(exitInterrupted)
	case errors.As(err, &usage):
		return refuse(w, usage.error)
	}
	return failed(w, err)
}

// find looks the pipeline up.
func (f stackFlags) find(ctx context.Context, flags awsFlags) (pipelineOutputs, error) {
	client, err := flags.at(f.Stack).cloudFormation(ctx)
	if err != nil {
		return pipelineOutputs{}, usageError{err}
	}
	described, err := client.DescribeStacks(ctx, &cloudformation.DescribeStacksInput{StackName: &f.Stack})
	if err == nil && len(described.Stacks) != 1 {
		err = fmt.Errorf("%d stacks are called so", len(described.Stacks))
	}
	if err != nil {
		return pipelineOutputs{}, fmt.Errorf("look for stack %s in %s: %w", f.Stack, client.Options().Region, err)
	}
	pipelines := pipelinesOf(described.Stacks[0].Outputs)
	if len(pipelines) == 0 {
		return pipelineOutputs{}, usageError{fmt.Errorf("stack %s, which is %s, has no pipelines: none of its outputs is called …StateMachineArn with a …Run beside it",
			f.Stack, described.Stacks[0].StackStatus)}
	}
	return f.choose(pipelines)
}

func (f stackFlags) choose(pipelines []pipelineOutputs) (pipelineOutputs, error) {
	if f.Pipeline == "" && len(pipelines) == 1 {
		return pipelines[0], nil
	}
	var names []string
	for _, p := range pipelines {
		if f.Pipeline == p.Name || f.Pipeline == p.ID {
			return p, nil
		}
		names = append(names, p.Name)
	}
	if f.Pipeline == "" {
		return pipelineOutputs{}, usageError{fmt.Errorf("stack %s has several pipelines, name one with --pipeline: %s", f.Stack, strings.Join(names, ", "))}
	}
	return pipelineOutputs{}, usageError{fmt.Errorf("--pipeline: stack %s has no %s: %s", f.Stack, f.Pipeline, strings.Join(names, ", "))}
}

// pipelinesOf reads the outputs of a stack, in the order of the pipelines' names.
func pipelinesOf(outputs []types.Output) []pipelineOutputs {
	values := map[string]string{}
	for _, o := range outputs {
		values[aws.ToString(o.OutputKey)] = aws.ToString(o.OutputValue)
	}
	var pipelines []pipelineOutputs
	for key, machine := range values {
		id, is := strings.CutSuffix(key, "StateMachineArn")
		run, has := values[id+"Run"]
		if !is || !has {
			continue
		}
		p := pipelineOutputs{Name: id, ID: id, Machine: machine, Run: json.RawMessage(run)}
		var config struct{ Pipeline string }
		if json.Unmarshal(p.Run, &config) == nil && config.Pipeline != "" {
			p.Name = config.Pipeline
		}
		pipelines = append(pipelines, p)
	}
	slices.SortFunc(pipelines, func(a, b pipelineOutputs) int { return cmp.Compare(a.Name, b.Name) })
	return pipelines
}
