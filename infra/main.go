// Command infra is the CDK app: it turns the context "lockstep" into a
// CloudFormation template. The CDK command line runs it, as cdk.json says.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

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
	app := awscdk.NewApp(&awscdk.AppProps{Outdir: outputFolder(root)})
	text, err := contextText(app.Node().TryGetContext(jsii.String(settings.ContextKey)), root)
	if err != nil {
		return err
	}
	set, err := settings.Parse(text)
	if err != nil {
		return err
	}
	if _, err := stack.New(app, set, stack.Files{
		Dist:       filepath.Join(root, "dist"),
		Definition: filepath.Join(root, "statemachine.asl.json"),
	}); err != nil {
		return err
	}
	app.Synth(nil)
	return nil
}

// outputFolder is where the CDK command line looks for the template. It says so
// in relation to its own folder, the root, while Go runs this program in its
// module's.
func outputFolder(root string) *string {
	folder, set := os.LookupEnv("CDK_OUTDIR")
	if !set {
		return nil
	}
	if !filepath.IsAbs(folder) {
		folder = filepath.Join(root, folder)
	}
	return &folder
}

// contextText is the settings as JSON: an object from cdk.json, the text of -c,
// or the file that -c lockstep=@path names.
func contextText(value any, root string) ([]byte, error) {
	switch v := value.(type) {
	case nil:
		return nil, fmt.Errorf("there is no context %q; put it into cdk.json, or give -c %s=@FILE", settings.ContextKey, settings.ContextKey)
	case string:
		path, isFile := strings.CutPrefix(v, "@")
		if !isFile {
			return []byte(v), nil
		}
		if !filepath.IsAbs(path) {
			path = filepath.Join(root, path)
		}
		return os.ReadFile(path)
	}
	return json.Marshal(value)
}

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
