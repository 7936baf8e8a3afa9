package interop

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// seaweedFS is release 4.53, whose tag Go does not take for a version.
const seaweedFS = "github.com/seaweedfs/seaweedfs@v0.0.0-20261109003541-7506e5f91cd6"

// startSeaweedFS builds SeaweedFS if SEAWEEDFS is "build", which takes minutes
// and gigabytes, or takes the program that SEAWEEDFS names.
func startSeaweedFS(t *testing.T) server {
	program := os.Getenv("SEAWEEDFS")
	switch program {
	case "":
		t.Skip("set SEAWEEDFS to the path of a weed program, or to \"build\"")
	case "build":
		program = buildSeaweedFS(t)
	}
	folder := t.TempDir()
	config := filepath.Join(folder, "s3.json")
	err := os.WriteFile(config, []byte(`{"identities": [{"name": "interop",
		"credentials": [{"accessKey": "`+accessKey+`", "secretKey": "`+secretKey+`"}], "actions": ["Admin"]}]}`), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	return run(t, func(port string) *exec.Cmd {
		return exec.Command(program, "server", "-dir", folder, "-ip", "127.0.0.1", "-ip.bind", "127.0.0.1",
			"-master.port", freePort(t), "-volume.port", freePort(t), "-filer.port", freePort(t),
			// Each bucket takes some volumes of its own, and each test a bucket.
			"-volume.max", "2000", "-master.volumeSizeLimitMB", "64",
			"-s3", "-s3.port", port, "-s3.config", config)
	})
}

// buildSeaweedFS builds from a copy: go install refuses a module that replaces
// others, and the module cache cannot be built in.
func buildSeaweedFS(t *testing.T) string {
	folder := t.TempDir()
	download := exec.CommandContext(t.Context(), "go", "mod", "download", "-json", seaweedFS)
	download.Dir = folder
	output, err := download.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s", download, err, output)
	}
	var module struct{ Dir string }
	if err := json.Unmarshal(output, &module); err != nil {
		t.Fatal(err)
	}
	source := filepath.Join(folder, "source")
	if err := os.CopyFS(source, os.DirFS(module.Dir)); err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(folder, "weed")
	build := exec.CommandContext(t.Context(), "go", "build", "-mod=mod", "-o", program, "./weed")
	build.Dir = source
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if output, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", build, err, output)
	}
	return program
}
