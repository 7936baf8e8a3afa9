package stack_test

import (
	"debug/elf"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/jsii-runtime-go"

	"github.com/lockstep-pipeline/lockstep/infra/settings"
	"github.com/lockstep-pipeline/lockstep/infra/stack"
)

func TestMain(m *testing.M) {
	code := m.Run()
	jsii.Close()
	os.Exit(code)
}

// A template is CloudFormation as it was synthesized, read as plain JSON.
type template struct {
	Resources map[string]resource
	Outputs   map[string]struct{ Value any }
	Metadata  map[string]any
}

type resource struct {
	Type           string
	Properties     map[string]any
	Metadata       map[string]any
	DependsOn      []string
	DeletionPolicy string
}

// shipped are the settings in cdk.json.
func shipped(t *testing.T) string {
	t.Helper()
	return string(cdkContext(t)["lockstep"])
}

func cdkContext(t *testing.T) map[string]json.RawMessage {
	t.Helper()
	text, err := os.ReadFile("../../cdk.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Context map[string]json.RawMessage }
	if err := json.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	return file.Context
}

// newApp has the feature flags of cdk.json and what the command line adds.
func newApp(t *testing.T, changes ...map[string]any) awscdk.App {
	t.Helper()
	values := map[string]any{"aws:cdk:enable-asset-metadata": true, "aws:cdk:enable-path-metadata": true}
	for name, value := range cdkContext(t) {
		if strings.HasPrefix(name, "@") {
			var flag any
			if err := json.Unmarshal(value, &flag); err != nil {
				t.Fatal(err)
			}
			values[name] = flag
		}
	}
	for _, change := range changes {
		maps.Copy(values, change)
	}
	return awscdk.NewApp(&awscdk.AppProps{Context: &values, Outdir: jsii.String(t.TempDir()), AnalyticsReporting: jsii.Bool(false)})
}

// add puts a stack with these settings into an app.
func add(t *testing.T, app awscdk.App, text string) awscdk.Stack {
	t.Helper()
	set, err := settings.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	made, err := stack.New(app, set, stack.Files{Dist: dist(t, elf.EM_AARCH64), Definition: "../../statemachine.asl.json"})
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// synth gives the template of a stack with these settings. It is made once for
// the same settings, so tests only read it.
func synth(t *testing.T, text string) template {
	t.Helper()
	if done, is := synthesized[text]; is {
		return done
	}
	app := newApp(t)
	made := add(t, app, text)
	app.Synth(nil)
	file, err := os.ReadFile(filepath.Join(*app.Outdir(), *made.TemplateFile()))
	if err != nil {
		t.Fatal(err)
	}
	var out template
	if err := json.Unmarshal(file, &out); err != nil {
		t.Fatal(err)
	}
	if folder := os.Getenv("LOCKSTEP_TEMPLATES"); folder != "" {
		// For others to look at: test/deploy/validate.
		if err := os.WriteFile(filepath.Join(folder, fmt.Sprintf("%02d.template.json", len(synthesized))), file, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	synthesized[text] = out
	return out
}

var synthesized = map[string]template{}

// rich are settings that use everything: two pipelines, one that keeps all
// versions and one that takes its whole source bucket, on buckets of which one is
// made.
const rich = `{
	"stackName": "acme",
	"architecture": "arm64",
	"createBuckets": ["acme-state"],
	"encryption": {"key": "new", "readKeys": ["arn:aws:kms:eu-central-1:123456789012:key/1234abcd-12ab-34cd-56ef-1234567890ab"]},
	"functions": {
		"environment": {"LOCKSTEP_S3_CHECKSUM": "CRC32C", "LOCKSTEP_PROBE": "true"},
		"acquire": {"timeoutSeconds": 30},
		"release": {"reservedConcurrency": 0}
	},
	"logs": {"retentionDays": 365},
	"alarms": {"email": "oncall@example.com"},
	"vpc": {"subnetIds": ["subnet-0a1b2c3d"], "securityGroupIds": ["sg-0a1b2c3d"]},
	"pipelines": {
		"sales-eu": {
			"schedule": {"expression": "cron(0 6 * * ? *)", "timeZone": "Europe/Berlin"},
			"alarms": {"noSuccessMinutes": 2880},
			"run": {
				"source": {"bucket": "acme-inbox", "prefix": "eu"},
				"destination": {"bucket": "acme-lake", "prefix": "sales/eu", "versions": "all"},
				"state": {"bucket": "acme-state", "prefix": "sales-eu"},
				"failure": {"minFailedFiles": 1}
			}
		},
		"sales-us": {
			"schedule": {"expression": "rate(1 hour)", "enabled": false},
			"run": {
				"source": {"bucket": "acme-inbox-us"},
				"destination": {"bucket": "acme-lake", "prefix": "sales/us"},
				"state": {"bucket": "acme-state", "prefix": "sales-us"}
			}
		}
	}
}`

// dist is a folder of functions that can do nothing but say for which machine
// they are.
func dist(t *testing.T, machine elf.Machine) string {
	t.Helper()
	folder := t.TempDir()
	for _, name := range []string{"acquire", "discover", "process", "commit", "release"} {
		writeBinary(t, folder, name, machine)
	}
	return folder
}

func writeBinary(t *testing.T, folder, name string, machine elf.Machine) {
	t.Helper()
	var head [64]byte
	copy(head[:], "\x7fELF\x02\x01\x01")
	binary.LittleEndian.PutUint16(head[16:], uint16(elf.ET_EXEC))
	binary.LittleEndian.PutUint16(head[18:], uint16(machine))
	binary.LittleEndian.PutUint32(head[20:], uint32(elf.EV_CURRENT))
	binary.LittleEndian.PutUint16(head[52:], 64)
	if err := os.MkdirAll(filepath.Join(folder, name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, name, "bootstrap"), append(head[:], name...), 0o755); err != nil {
		t.Fatal(err)
	}
}

// ofType are the resources of a type, by logical id.
func (tpl template) ofType(name string) map[string]resource {
	found := map[string]resource{}
	for id, r := range tpl.Resources {
		if r.Type == name {
			found[id] = r
		}
	}
	return found
}

// plain turns CloudFormation's functions into text: {"Ref": "X"} into "${X}".
func plain(value any) any {
	switch v := value.(type) {
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = plain(v[i])
		}
		return out
	case map[string]any:
		if len(v) == 1 {
			if ref, is := v["Ref"].(string); is {
				return "${" + ref + "}"
			}
			if get, is := v["Fn::GetAtt"].([]any); is {
				return fmt.Sprintf("${%s.%s}", get...)
			}
			if join, is := v["Fn::Join"].([]any); is {
				var parts []string
				for _, part := range join[1].([]any) {
					parts = append(parts, plain(part).(string))
				}
				return strings.Join(parts, join[0].(string))
			}
			if sub, is := v["Fn::Sub"].(string); is {
				return sub
			}
		}
		out := map[string]any{}
		for key := range v {
			out[key] = plain(v[key])
		}
		return out
	}
	return value
}

// at walks into a value by keys, and gives nil where there is nothing.
func at(value any, keys ...string) any {
	for _, key := range keys {
		object, is := value.(map[string]any)
		if !is {
			return nil
		}
		value = object[key]
	}
	return plain(value)
}
