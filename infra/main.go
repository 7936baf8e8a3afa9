// Command infra is the CDK app: it turns the context "lockstep" into a
// CloudFormation template. The CDK command line runs it, as cdk.json says.
package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/jsii-runtime-go"

	"github.com/lockstep-pipeline/lockstep/infra/settings"
	"github.com/lockstep-pipeline/lockstep/infra/stack"
)

func main() {
	defer jsii.Close()
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "lockstep:", err)
		jsii.Close()
		os.Exit(1)
	}
}

func run() error {
	root, err := projectRoot()
	if err != nil {
		return err
	}
	// Go runs this program in its module's folder. The CDK command line was
	// started in the root and names all its files in relation to that.
	if err := os.Chdir(root); err != nil {
		return err
	}
	app := awscdk.NewApp(nil)
	set, err := settings.FromContext(app.Node().TryGetContext(jsii.String(settings.ContextKey)), root)
	if err != nil {
		return err
	}
	dist, given := app.Node().TryGetContext(jsii.String(distKey)).(string)
	if !given {
		dist = "dist"
	}
	if _, err := stack.New(app, set, stack.Files{Dist: dist, Definition: "statemachine.asl.json"}); err != nil {
		return err
	}
	app.Synth(nil)
	return nil
}

// distKey is the context that names the folder of the functions, where it is
// another one than make build's: one for this machine and not for Lambda.
const distKey = "dist"

// projectRoot is the folder that has dist/ and the state machine: the one
// above this module, whichever of the two the command was started in.
func projectRoot() (string, error) {
	folder, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(folder, "statemachine.asl.json")); err == nil {
			return folder, nil
		}
		parent := filepath.Dir(folder)
		if parent == folder {
			return "", errors.New("statemachine.asl.json is in no folder above the current one; run cdk in the project's root")
		}
		folder = parent
	}
}
