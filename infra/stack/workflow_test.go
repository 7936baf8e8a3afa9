package stack_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	lockstep "github.com/lockstep-pipeline/lockstep"
)

var variable = regexp.MustCompile(`\$\{[A-Za-z]+\}`)

// filled is the definition as Step Functions would get it.
func (tpl template) filled(t *testing.T, machine string) string {
	t.Helper()
	substitutions, _ := tpl.Resources[machine].Properties["DefinitionSubstitutions"].(map[string]any)
	text := string(lockstep.Definition)
	for name := range substitutions {
		if !strings.Contains(text, "${"+name+"}") {
			t.Errorf("%s: %s is in the template, and nowhere in the definition", machine, name)
		}
		text = strings.ReplaceAll(text, "${"+name+"}", strings.NewReplacer("${", "<", "}", ">").Replace(at(substitutions, name).(string)))
	}
	return text
}

func TestNothingIsLeftToFillIn(t *testing.T) {
	for text, machines := range map[string][]string{shipped(t): {"WeatherStateMachine"}, rich: {"SalesEuStateMachine", "SalesUsStateMachine"}} {
		tpl := synth(t, text)
		for _, machine := range machines {
			if left := variable.FindAllString(tpl.filled(t, machine), -1); len(left) > 0 {
				t.Errorf("%s: %v", machine, left)
			}
		}
	}
}

// Each name in the definition stands for the function of that name: a mix-up
// would let one function be called with another's input.
func TestEachStateCallsItsFunction(t *testing.T) {
	tpl := synth(t, rich)
	for machine, runs := range map[string]string{"SalesEuStateMachine": "sales-eu/runs/", "SalesUsStateMachine": "sales-us/runs/"} {
		substitutions := tpl.Resources[machine].Properties["DefinitionSubstitutions"]
		for name, wanted := range map[string]string{
			"AcquireFunctionArn": "${AcquireFunction.Arn}", "DiscoverFunctionArn": "${DiscoverFunction.Arn}", "ProcessFunctionArn": "${ProcessFunction.Arn}",
			"CommitFunctionArn": "${CommitFunction.Arn}", "ReleaseFunctionArn": "${ReleaseFunction.Arn}", "StateBucket": "acme-state",
			"RunsPrefix": runs,
		} {
			if got := at(substitutions, name); got != wanted {
				t.Errorf("%s: %s is %v, not %s", machine, name, got, wanted)
			}
		}
	}
}

func TestExecutionsAreLoggedWithoutTheirData(t *testing.T) {
	tpl := synth(t, shipped(t))
	machine := tpl.Resources["WeatherStateMachine"].Properties
	if at(machine, "StateMachineType") != "STANDARD" || at(machine, "TracingConfiguration", "Enabled") != true {
		t.Errorf("type %v, tracing %v", at(machine, "StateMachineType"), at(machine, "TracingConfiguration"))
	}
	if at(machine, "LoggingConfiguration", "Level") != "ALL" || at(machine, "LoggingConfiguration", "IncludeExecutionData") != false {
		t.Errorf("logging is %v", at(machine, "LoggingConfiguration"))
	}
	with := synth(t, strings.Replace(shipped(t), `"stackName"`, `"logs": {"executionData": true}, "stackName"`, 1))
	if at(with.Resources["WeatherStateMachine"].Properties, "LoggingConfiguration", "IncludeExecutionData") != true {
		t.Error("the setting does nothing")
	}
}

func TestTheDefinitionMayBeInTheTemplate(t *testing.T) {
	tpl := synth(t, strings.Replace(shipped(t), `"stackName"`, `"inlineDefinition": true, "stackName"`, 1))
	machine := tpl.Resources["WeatherStateMachine"].Properties
	if at(machine, "DefinitionString") != string(lockstep.Definition) || at(machine, "DefinitionS3Location") != nil {
		t.Errorf("the definition is at %v", at(machine, "DefinitionS3Location"))
	}
	if at(machine, "DefinitionSubstitutions", "StateBucket") != "${StateBucket}" {
		t.Error("it is not filled in")
	}
	asset := synth(t, shipped(t)).Resources["WeatherStateMachine"].Properties
	if at(asset, "DefinitionS3Location", "Key") == nil {
		t.Error("without the setting there is no asset")
	}
}

// A role that comes later than its user would make the first run fail.
func TestRolesComeFirst(t *testing.T) {
	tpl := synth(t, shipped(t))
	for id, property := range map[string]string{"WeatherStateMachine": "RoleArn", "AcquireFunction": "Role", "ReleaseFunction": "Role"} {
		role := tpl.roleOf(t, id, property)
		if !slices.ContainsFunc(tpl.Resources[id].DependsOn, func(d string) bool {
			return tpl.Resources[d].Type == "AWS::IAM::Policy" && slices.Contains(texts(at(tpl.Resources[d].Properties, "Roles")), "${"+role+"}")
		}) {
			t.Errorf("%s does not wait for its permissions: %v", id, tpl.Resources[id].DependsOn)
		}
	}
}
