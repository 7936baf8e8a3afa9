// Command template writes the template that make sam-<function> gives to SAM:
// CDK's, with the variables of an env-vars file.
//
//	go run ./test/sam/template FOLDER [ENV_VARS]
package main

import (
	"fmt"
	"os"

	"github.com/lockstep-pipeline/lockstep/test/sam"
)

func main() {
	if len(os.Args) < 2 || len(os.Args) > 3 {
		fmt.Fprintln(os.Stderr, "usage: template FOLDER [ENV_VARS]")
		os.Exit(2)
	}
	envVars := ""
	if len(os.Args) == 3 {
		envVars = os.Args[2]
	}
	if err := sam.WriteTemplate(os.Args[1], envVars); err != nil {
		fmt.Fprintln(os.Stderr, "template:", err)
		os.Exit(1)
	}
}
