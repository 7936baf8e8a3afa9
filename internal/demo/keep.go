package demo

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/lockstep-pipeline/lockstep/internal/asl"
)

// Remains is what a telling left in the buckets: bucket, then key, to content.
type Remains map[string]map[string][]byte

// CheckEmpty refuses a folder that has something in it already.
func CheckEmpty(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil && len(entries) > 0 {
		err = fmt.Errorf("%s is not empty; name a new folder, so that nothing of yours is overwritten", dir)
	}
	return err
}

// Keep writes a telling below dir as plain files: a folder for each bucket,
// report.json, and histories with a file for each run, in the shape of
// GetExecutionHistory.
func Keep(dir string, report *Report, remains Remains) error {
	for name, objects := range remains {
		for key, content := range objects {
			local, err := filepath.Localize(key)
			if err != nil {
				return fmt.Errorf("s3://%s/%s cannot be kept as a file: %w", name, key, err)
			}
			if err := write(filepath.Join(dir, name, local), content); err != nil {
				return err
			}
		}
	}
	for run, events := range report.History {
		content, err := encode(history{events})
		if err != nil {
			return err
		}
		if err := write(filepath.Join(dir, "histories", run+".json"), content); err != nil {
			return err
		}
	}
	content, err := report.JSON()
	if err != nil {
		return err
	}
	return write(filepath.Join(dir, "report.json"), content)
}

// history is GetExecutionHistory's answer.
type history struct {
	Events []asl.Event `json:"events"`
}

func write(path string, content []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, content, 0o644)
}
