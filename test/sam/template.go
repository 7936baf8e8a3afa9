package sam

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

// TemplateFile is what WriteTemplate makes. It lies beside CDK's own, whose
// paths are relative to their folder.
const TemplateFile = "template.json"

// functionType is how CloudFormation calls a Lambda function.
const functionType = "AWS::Lambda::Function"

// WriteTemplate writes TemplateFile into a folder where CDK put one stack, with
// the variables that the env-vars file names. That may be "": none.
func WriteTemplate(folder, envVars string) error {
	found, err := filepath.Glob(filepath.Join(folder, "*.template.json"))
	if err != nil {
		return err
	}
	if len(found) != 1 {
		return fmt.Errorf("%s has %d templates and not one: %v; remove the folder and try again", folder, len(found), found)
	}
	text, err := os.ReadFile(found[0])
	if err != nil {
		return err
	}
	if envVars != "" {
		values, err := os.ReadFile(envVars)
		if err != nil {
			return err
		}
		if text, err = Template(text, values); err != nil {
			return fmt.Errorf("%s with the variables of %s: %w", found[0], envVars, err)
		}
	}
	return os.WriteFile(filepath.Join(folder, TemplateFile), text, 0o644)
}

// Template returns a CloudFormation template whose functions have, beside their
// own environment variables, empty ones for all that a SAM env-vars file names:
// those below "Parameters" are every function's, those below a logical id that
// one's.
func Template(template, envVars []byte) ([]byte, error) {
	var values map[string]map[string]any
	if err := json.Unmarshal(envVars, &values); err != nil {
		return nil, fmt.Errorf(`the variables are not {"Parameters": {NAME: VALUE}}: %w`, err)
	}
	whole, err := decode(template)
	if err != nil {
		return nil, err
	}
	resources, _ := whole["Resources"].(map[string]any)
	var functions []string
	for id, r := range resources {
		resource, _ := r.(map[string]any)
		if resource["Type"] != functionType {
			continue
		}
		functions = append(functions, id)
		variables := within(within(within(resource, "Properties"), "Environment"), "Variables")
		for _, of := range []string{"Parameters", id} {
			for name := range values[of] {
				if _, has := variables[name]; !has {
					variables[name] = ""
				}
			}
		}
	}
	if len(functions) == 0 {
		return nil, errors.New("the template has no function")
	}
	for of := range values {
		if of != "Parameters" && !slices.Contains(functions, of) {
			slices.Sort(functions)
			return nil, fmt.Errorf("there is no function %s; there are %v", of, functions)
		}
	}
	return json.MarshalIndent(whole, "", " ")
}

// decode keeps numbers as they are written.
func decode(text []byte) (whole map[string]any, err error) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	err = decoder.Decode(&whole)
	return whole, err
}

// within returns the object that another has under a name, made if need be.
func within(object map[string]any, name string) map[string]any {
	inner, is := object[name].(map[string]any)
	if !is {
		inner = map[string]any{}
		object[name] = inner
	}
	return inner
}
