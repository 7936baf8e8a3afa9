package demo

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"

	"github.com/lockstep-pipeline/lockstep/pkg/bucket"
)

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

// collect reads what is in the buckets that the runs write to.
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
