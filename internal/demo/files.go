package demo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/lockstep-pipeline/lockstep/pkg/bucket"
)

// split returns the paths of the regular files, in order, cut into those that
// are there at the beginning and those that arrive late: a third, spread over
// all folders.
func split(files fs.FS) (first, late []string, err error) {
	n := 0
	err = fs.WalkDir(files, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		if n++; n%3 == 0 {
			late = append(late, path)
		} else {
			first = append(first, path)
		}
		return nil
	})
	if err != nil {
		return nil, nil, fmt.Errorf("read the files to process: %w", err)
	}
	if len(late) == 0 {
		return nil, nil, fmt.Errorf("found %d files; the demo needs at least three, so that some can arrive late", n)
	}
	return first, late, nil
}

// upload puts files into the source, under their paths.
func (s *stage) upload(ctx context.Context, files fs.FS, paths []string) error {
	source, err := bucket.New(s.stack.S3(), s.config.Source.Bucket, bucket.Options{})
	if err != nil {
		return err
	}
	for _, path := range paths {
		content, err := fs.ReadFile(files, path)
		if err != nil {
			return fmt.Errorf("read a file to process: %w", err)
		}
		if _, err := source.Put(ctx, s.config.Source.Prefix+path, bytes.NewReader(content), "", bucket.Condition{}); err != nil {
			return err
		}
	}
	return nil
}

// Remains is what a telling left in the buckets: bucket, then key, to content.
type Remains map[string]map[string][]byte

func (s *stage) collect(ctx context.Context) (Remains, error) {
	remains := Remains{}
	for _, name := range []string{s.config.Destination.Bucket, s.config.State.Bucket} {
		from, err := bucket.New(s.stack.S3(), name, bucket.Options{})
		if err != nil {
			return nil, err
		}
		remains[name] = map[string][]byte{}
		for page, err := range from.List(ctx, bucket.ListOptions{}) {
			if err != nil {
				return nil, err
			}
			for _, entry := range page.Entries {
				if remains[name][entry.Key], err = read(ctx, from, entry.Key); err != nil {
					return nil, err
				}
			}
		}
	}
	return remains, nil
}

func read(ctx context.Context, from *bucket.Bucket, key string) ([]byte, error) {
	object, err := from.Get(ctx, key, bucket.Condition{})
	if err != nil {
		return nil, err
	}
	defer object.Body.Close()
	return io.ReadAll(object.Body)
}

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

// Keep writes the remains below dir as plain files, a folder for each bucket.
func (r Remains) Keep(dir string) error {
	for name, objects := range r {
		for key, content := range objects {
			local, err := filepath.Localize(key)
			if err != nil {
				return fmt.Errorf("s3://%s/%s cannot be kept as a file: %w", name, key, err)
			}
			if err := WriteFile(filepath.Join(dir, name, local), content); err != nil {
				return err
			}
		}
	}
	return nil
}

// WriteFile writes a file and the folders above it.
func WriteFile(path string, content []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, content, 0o644)
}
