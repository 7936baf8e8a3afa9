package stack

import (
	"debug/elf"
	"fmt"
	"path/filepath"

	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
)

var architectures = map[elf.Machine]string{elf.EM_AARCH64: "arm64", elf.EM_X86_64: "x86_64"}

// architectureOf reads the kind of machine that the functions were built for,
// since a function of the wrong kind is found out only when it is invoked.
// wanted may be empty.
func architectureOf(dist, wanted string) (awslambda.Architecture, error) {
	found := wanted
	for _, name := range functionNames {
		path := filepath.Join(dist, name, "bootstrap")
		binary, err := elf.Open(path)
		if err != nil {
			return nil, fmt.Errorf("function %s: %w; run make build", name, err)
		}
		kind := architectures[binary.Machine]
		dynamic := binary.Section(".interp") != nil
		_ = binary.Close() // it was only read
		switch {
		case kind == "":
			return nil, fmt.Errorf("%s is for %s, which Lambda does not have; run make build", path, binary.Machine)
		case dynamic:
			return nil, fmt.Errorf("%s needs libraries that Lambda does not have; run make build, which links statically", path)
		case found == "":
			found = kind
		case kind != found:
			return nil, fmt.Errorf("%s is built for %s, but %s is wanted; run make build ARCH=%s", path, kind, found, found)
		}
	}
	if found == "arm64" {
		return awslambda.Architecture_ARM_64(), nil
	}
	return awslambda.Architecture_X86_64(), nil
}
