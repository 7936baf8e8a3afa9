package stack

import (
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/aws-cdk-go/awscdk/v2/awss3"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssns"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssqs"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsstepfunctions"
)

func (b *builder) excuseBucket(awss3.Bucket)                                {}
func (b *builder) excuseFunction(awslambda.Function, awsiam.Role)           {}
func (b *builder) excusePolicy(awsiam.ManagedPolicy)                        {}
func (b *builder) excuseDeadLetters(awssqs.Queue)                           {}
func (b *builder) excuseMachine(awsstepfunctions.StateMachine, awsiam.Role) {}
func (b *builder) excuseTopic(awssns.Topic)                                 {}
