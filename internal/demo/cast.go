package demo

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/lockstep-pipeline/lockstep/internal/step"
)

// errTooFewFiles: the story cannot be told with so few.
var errTooFewFiles = errors.New("too few files")

// A cast is the files of a telling, by path, in order.
type cast struct {
	first  []string // there at the beginning
	late   []string // arrive while the first run works
	others []string // there too, and not for the pipeline to take
}

// newCast reads the paths of the regular files. Every third that the pipeline
// takes arrives late, so that the late ones are spread over all folders.
func newCast(files fs.FS, selection step.SelectionSettings) (cast, error) {
	var c cast
	err := fs.WalkDir(files, ".", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil || !entry.Type().IsRegular():
			return err
		case !takes(selection, path):
			c.others = append(c.others, path)
		case len(c.first) >= 2*(len(c.late)+1):
			c.late = append(c.late, path)
		default:
			c.first = append(c.first, path)
		}
		return nil
	})
	if err != nil {
		return cast{}, fmt.Errorf("read the files to process: %w", err)
	}
	if len(c.late) > 0 {
		return c, nil
	}
	err = fmt.Errorf("%w: %d to process, and the demo needs three, so that one can arrive late", errTooFewFiles, len(c.first))
	if len(c.others) > 0 {
		err = fmt.Errorf("%w; not taken: %s (%d in all), since a path must match %s, and not %s",
			err, c.others[0], len(c.others), strings.Join(selection.Include, " or "), strings.Join(selection.Exclude, " or "))
	}
	return cast{}, err
}

// takes tells whether the pipeline's globs select a path.
func takes(selection step.SelectionSettings, path string) bool {
	match := func(patterns []string) bool {
		for _, pattern := range patterns {
			if doublestar.MatchUnvalidated(pattern, path) {
				return true
			}
		}
		return false
	}
	return (len(selection.Include) == 0 || match(selection.Include)) && !match(selection.Exclude)
}
