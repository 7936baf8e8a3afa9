package process

import (
	"cmp"
	"fmt"
	"os"
)

// scratch owns the temporary files of one call.
type scratch struct {
	dir   string
	files []*os.File
}

// create opens a new temporary file and takes its name away at once, so that
// even a killed process leaves nothing behind. Where an open file cannot be
// removed, close does it.
func (s *scratch) create() (*os.File, error) {
	file, err := os.CreateTemp(s.dir, "lockstep-*")
	if err != nil {
		return nil, fmt.Errorf("no temporary file can be made in %s; see that it is there, writable and has room (ephemeralStorageMB of the process function): %w", cmp.Or(s.dir, os.TempDir()), err)
	}
	_ = os.Remove(file.Name())
	s.files = append(s.files, file)
	return file, nil
}

func (s *scratch) close() {
	for _, file := range s.files {
		_ = file.Close()
		_ = os.Remove(file.Name())
	}
	s.files = nil
}
