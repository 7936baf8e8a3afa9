package sam_test

import (
	"flag"
	"os"
	"path/filepath"
	"testing"
)

var (
	synthesised = flag.String("template", "", "the folder with CDK's template and its assets, as make sam-test makes it; without it, what needs one is left out")
	invoke      = flag.Bool("invoke", false, "invoke the functions with SAM; needs -template and Docker")
	samFlags    = flag.String("sam-flags", "", "what make is to hand to sam local invoke")
	samCommand  = flag.String("sam", "", "the sam command")
)

const root = "../.."

func read(t *testing.T, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		t.Fatal(err)
	}
	return text
}
