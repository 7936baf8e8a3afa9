package stack_test

import (
	"testing"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/assertions"
	"github.com/aws/jsii-runtime-go"
	"github.com/cdklabs/cdk-nag-go/cdknag/v2"
)

// The rules of cdk-nag's AwsSolutions, each either kept or excused with a reason.
func TestNagFindsNothing(t *testing.T) {
	for name, text := range map[string]string{"shipped": shipped(t), "rich": rich} {
		t.Run(name, func(t *testing.T) {
			// Otherwise a finding ends the synthesis before it can be read.
			app := newApp(t, map[string]any{"@aws-cdk/core:annotationsInValidationReport": false})
			made := add(t, app, text)
			awscdk.Aspects_Of(app).Add(cdknag.NewAwsSolutionsChecks(&cdknag.NagPackProps{Verbose: jsii.Bool(true)}), nil)
			found := assertions.Annotations_FromStack(made)
			for _, message := range *found.FindError(jsii.String("*"), assertions.Match_AnyValue()) {
				t.Errorf("%s: %v", *message.Id, message.Entry.Data)
			}
			for _, message := range *found.FindWarning(jsii.String("*"), assertions.Match_AnyValue()) {
				t.Errorf("%s: %v", *message.Id, message.Entry.Data)
			}
		})
	}
}
