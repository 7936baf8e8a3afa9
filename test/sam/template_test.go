package sam_test

import (
	"bytes"
	"debug/buildinfo"
	"debug/elf"
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/lockstep-pipeline/lockstep/functions"
	"github.com/lockstep-pipeline/lockstep/test/sam"
)

func TestTemplateAddsOnlyNames(t *testing.T) {
	const from = `{"Resources": {
		"F": {"Type": "AWS::Lambda::Function", "Properties": {"Timeout": 12345678901234567890, "Environment": {"Variables": {"A": {"Ref": "X"}}}}},
		"G": {"Type": "AWS::Lambda::Function"},
		"B": {"Type": "AWS::S3::Bucket"}}}`
	const want = `{"Resources": {
		"F": {"Type": "AWS::Lambda::Function", "Properties": {"Timeout": 12345678901234567890, "Environment": {"Variables": {"A": {"Ref": "X"}, "B": ""}}}},
		"G": {"Type": "AWS::Lambda::Function", "Properties": {"Environment": {"Variables": {"A": "", "B": "", "C": ""}}}},
		"B": {"Type": "AWS::S3::Bucket"}}}`
	got, err := sam.Template([]byte(from), []byte(`{"Parameters": {"A": "1", "B": "2"}, "G": {"C": "3"}}`))
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(parse(t, got), parse(t, []byte(want))) {
		t.Errorf("got %s", got)
	}
}

func TestTemplateRefusesWhatSAMWouldPassOver(t *testing.T) {
	const function = `{"Resources": {"F": {"Type": "AWS::Lambda::Function"}}}`
	for says, c := range map[string][2]string{
		"there is no function Acquire; there are [F]": {function, `{"Acquire": {"A": "1"}}`},
		"are not":                      {function, `{"A": "1"}`},
		"the template has no function": {`{"Resources": {"B": {"Type": "AWS::S3::Bucket"}}}`, `{}`},
		"EOF":                          {``, `{}`},
	} {
		if _, err := sam.Template([]byte(c[0]), []byte(c[1])); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", says, err)
		}
	}
}

func parse(t *testing.T, text []byte) (whole map[string]any) {
	t.Helper()
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	if err := decoder.Decode(&whole); err != nil {
		t.Fatal(err)
	}
	return whole
}

// function is what SAM reads of one.
type function struct {
	Type       string
	Properties struct {
		Architectures    []string
		Handler, Runtime string
		Environment      struct{ Variables map[string]any }
	}
	Metadata map[string]any
}

// made returns the functions of a template that make sam-test made.
func made(t *testing.T, file string) map[string]function {
	t.Helper()
	if *synthesised == "" {
		t.Skip("needs -template: make sam-test")
	}
	text, err := os.ReadFile(filepath.Join(*synthesised, file))
	if err != nil {
		t.Fatal(err)
	}
	var template struct{ Resources map[string]function }
	if err := json.Unmarshal(text, &template); err != nil {
		t.Fatal(err)
	}
	maps.DeleteFunc(template.Resources, func(_ string, f function) bool { return f.Type != "AWS::Lambda::Function" })
	return template.Resources
}

func logicalID(name string) string { return strings.ToUpper(name[:1]) + name[1:] + "Function" }

// SAM finds a function's code by two fields of its metadata, and starts what
// is called bootstrap there.
func TestSAMFindsEachFunctionsCode(t *testing.T) {
	all := made(t, sam.TemplateFile)
	var ids []string
	for _, name := range functions.Names {
		id := logicalID(name)
		ids = append(ids, id)
		f := all[id]
		if f.Metadata["aws:asset:property"] != "Code" || f.Properties.Handler != "bootstrap" || f.Properties.Runtime != "provided.al2023" {
			t.Errorf("%s: %+v", id, f)
		}
		folder, _ := f.Metadata["aws:asset:path"].(string)
		if folder == "" || filepath.IsAbs(folder) {
			t.Errorf("%s: its asset is at %q; SAM needs a path beside the template", id, folder)
			continue
		}
		checkBinary(t, name, filepath.Join(*synthesised, folder, "bootstrap"), f.Properties.Architectures)
	}
	slices.Sort(ids)
	if got := slices.Sorted(maps.Keys(all)); !slices.Equal(got, ids) {
		t.Errorf("the template has functions %v", got)
	}
}

func checkBinary(t *testing.T, name, path string, architectures []string) {
	t.Helper()
	binary, err := elf.Open(path)
	if err != nil {
		t.Error(err)
		return
	}
	defer binary.Close()
	machine := map[elf.Machine]string{elf.EM_AARCH64: "arm64", elf.EM_X86_64: "x86_64"}[binary.Machine]
	if !slices.Equal(architectures, []string{machine}) {
		t.Errorf("%s is for %s, its function for %v", path, machine, architectures)
	}
	if binary.Section(".interp") != nil {
		t.Errorf("%s needs a dynamic linker", path)
	}
	if info, err := os.Stat(path); err != nil || info.Mode()&0o111 != 0o111 {
		t.Errorf("%s cannot be executed: %v %v", path, info.Mode(), err)
	}
	if built, err := buildinfo.ReadFile(path); err != nil || !strings.HasSuffix(built.Path, "/functions/"+name) {
		t.Errorf("%s is not the function %s: %v %v", path, name, built, err)
	}
}

func TestSAMsTemplateIsCDKsWithTheVariables(t *testing.T) {
	all := made(t, sam.TemplateFile)
	for id, f := range all {
		for name := range variables(t) {
			if _, has := f.Properties.Environment.Variables[name]; !has {
				t.Errorf("%s lacks %s, so that SAM would not hand it over", id, name)
			}
		}
	}
	original, err := filepath.Glob(filepath.Join(*synthesised, "*.template.json"))
	if err != nil || len(original) != 1 {
		t.Fatalf("%v, %v", original, err)
	}
	whole := parseFile(t, original[0])
	with := parseFile(t, filepath.Join(*synthesised, sam.TemplateFile))
	for id := range all { // the one thing that may differ
		for _, template := range []map[string]any{whole, with} {
			properties := template["Resources"].(map[string]any)[id].(map[string]any)["Properties"].(map[string]any)
			delete(properties, "Environment")
		}
	}
	if !reflect.DeepEqual(whole, with) {
		t.Errorf("%s differs from %s in more than variables", sam.TemplateFile, original[0])
	}
}

func parseFile(t *testing.T, path string) map[string]any {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return parse(t, text)
}

func TestSAMTakesTheTemplateForValid(t *testing.T) {
	made(t, sam.TemplateFile)
	if *samCommand == "" {
		t.Skip("needs -sam: make sam-test")
	}
	command := exec.Command(*samCommand, "validate", "--region", "us-east-1", "-t", filepath.Join(*synthesised, sam.TemplateFile))
	command.Env = append(os.Environ(), "SAM_CLI_TELEMETRY=0", "AWS_ACCESS_KEY_ID=local", "AWS_SECRET_ACCESS_KEY=local")
	if said, err := command.CombinedOutput(); err != nil || !strings.Contains(string(said), "is a valid SAM Template") {
		t.Errorf("%v: %s", err, said)
	}
}
