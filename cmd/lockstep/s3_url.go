package main

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// objectURL names one object: s3://bucket/key. Nothing in it is decoded: a
// percent sign, "?" and "#" are characters of the key like any other.
type objectURL struct{ Bucket, Key string }

// prefixURL names the objects whose keys begin with Prefix: s3://bucket or
// s3://bucket/prefix. Prefix is taken as it is: "a" is the beginning of "ab".
type prefixURL struct{ Bucket, Prefix string }

// String is the URL as it was given.
func (u objectURL) String() string { return "s3://" + u.Bucket + "/" + u.Key }

// String is the URL, with the slash after the bucket.
func (u prefixURL) String() string { return "s3://" + u.Bucket + "/" + u.Prefix }

// UnmarshalText parses a URL from the command line.
func (u *objectURL) UnmarshalText(text []byte) error {
	bucket, key, err := splitURL(string(text))
	switch {
	case err != nil:
		return err
	case key == "":
		return fmt.Errorf("%q names a bucket but no object in it: add a key, as in s3://%s/locks/nightly", text, bucket)
	case strings.HasSuffix(key, "/"):
		return fmt.Errorf("%q ends in \"/\" and so names a folder: name one object, as in s3://%s/%snightly", text, bucket, key)
	}
	u.Bucket, u.Key = bucket, key
	return nil
}

// UnmarshalText parses a URL from the command line.
func (u *prefixURL) UnmarshalText(text []byte) error {
	bucket, prefix, err := splitURL(string(text))
	if err != nil {
		return err
	}
	u.Bucket, u.Prefix = bucket, prefix
	return nil
}

// maxKey is S3's limit in bytes.
// Source: S3 User Guide, "Naming Amazon S3 objects".
const maxKey = 1024

func splitURL(url string) (bucket, key string, err error) {
	rest, ok := strings.CutPrefix(url, "s3://")
	if !ok {
		return "", "", fmt.Errorf("%q is not an S3 URL: write s3://bucket/key", url)
	}
	bucket, key, _ = strings.Cut(rest, "/")
	if err := checkBucketName(bucket); err != nil {
		return "", "", fmt.Errorf("%q: %w", url, err)
	}
	switch {
	case len(key) > maxKey:
		return "", "", fmt.Errorf("the key has %d bytes; S3 takes at most %d", len(key), maxKey)
	case !utf8.ValidString(key):
		return "", "", fmt.Errorf("%q: the key is not UTF-8", url)
	}
	return bucket, key, nil
}

// checkBucketName refuses what was never a bucket's name. It allows the names
// of the years before 2018, which S3-compatible servers still give out.
// Source: S3 User Guide, "General purpose bucket naming rules".
func checkBucketName(name string) error {
	switch {
	case name == "":
		return errors.New("it names no bucket: write s3://bucket/key")
	case strings.HasPrefix(name, "arn:"):
		return errors.New("ARNs are not taken here: an access point is named by its alias")
	case len(name) < 3 || len(name) > 255:
		return fmt.Errorf("a bucket's name has 3 to 255 characters, %q has %d", name, len(name))
	}
	for _, r := range name {
		if !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_", r) {
			return fmt.Errorf("a bucket's name has letters, digits, \".\", \"-\" and \"_\", not %q", r)
		}
	}
	return nil
}
