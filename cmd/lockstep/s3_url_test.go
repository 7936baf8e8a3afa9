package main

import (
	"strings"
	"testing"
)

func TestS3URLs(t *testing.T) {
	for url, want := range map[string]struct {
		object objectURL
		prefix prefixURL
		refuse string // of an object; "" is none
	}{
		"s3://bucket/locks/nightly":  {objectURL{"bucket", "locks/nightly"}, prefixURL{"bucket", "locks/nightly"}, ""},
		"s3://bucket/100%25?x#y+z ä": {objectURL{"bucket", "100%25?x#y+z ä"}, prefixURL{"bucket", "100%25?x#y+z ä"}, ""},
		"s3://bucket//a//b":          {objectURL{"bucket", "/a//b"}, prefixURL{"bucket", "/a//b"}, ""},
		"s3://My_old.Bucket/k":       {objectURL{"My_old.Bucket", "k"}, prefixURL{"My_old.Bucket", "k"}, ""},
		"s3://bucket/locks/":         {objectURL{}, prefixURL{"bucket", "locks/"}, "names a folder: name one object, as in s3://bucket/locks/nightly"},
		"s3://bucket/":               {objectURL{}, prefixURL{"bucket", ""}, "names a bucket but no object in it"},
		"s3://bucket":                {objectURL{}, prefixURL{"bucket", ""}, "names a bucket but no object in it"},
		"s3://":                      {refuse: "names no bucket"},
		"s3:///key":                  {refuse: "names no bucket"},
		"s3://ab/k":                  {refuse: "3 to 255 characters"},
		"s3://user@bucket/k":         {refuse: `not '@'`},
		"s3://bucket:9000/k":         {refuse: `not ':'`},
		"s3://arn:aws:s3:eu-1:1:x/k": {refuse: "named by its alias"},
		"s3:/bucket/k":               {refuse: "is not an S3 URL"},
		"S3://bucket/k":              {refuse: "is not an S3 URL"},
		"https://bucket/k":           {refuse: "is not an S3 URL"},
		"bucket/k":                   {refuse: "is not an S3 URL"},
		"":                           {refuse: "is not an S3 URL"},
		"s3://bucket/\xff":           {refuse: "not UTF-8"},
		"s3://bucket/" + strings.Repeat("k", 1025): {refuse: "1025 bytes"},
	} {
		var object objectURL
		err := object.UnmarshalText([]byte(url))
		if want.refuse == "" && err != nil || want.refuse != "" && (err == nil || !strings.Contains(err.Error(), want.refuse)) {
			t.Errorf("object %q: %v, want %q", url, err, want.refuse)
		}
		if object != want.object {
			t.Errorf("object %q: %+v, want %+v", url, object, want.object)
		}
		var prefix prefixURL
		if err := prefix.UnmarshalText([]byte(url)); (err == nil) != (want.prefix != prefixURL{}) || prefix != want.prefix {
			t.Errorf("prefix %q: %+v, %v, want %+v", url, prefix, err, want.prefix)
		}
	}
}

func FuzzS3URLsMakeTheRoundTrip(f *testing.F) {
	for _, seed := range []string{"s3://bucket/locks/nightly", "s3://bucket/%2e%2E?#", "s3://bucket//", "s3://b", "s3://bucket", "s3://bucket/\x00\u2028"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var object objectURL
		if object.UnmarshalText([]byte(text)) == nil {
			if object.String() != text {
				t.Errorf("object %q became %q", text, object)
			}
			if object.Key == "" || strings.HasSuffix(object.Key, "/") || strings.Contains(object.Bucket, "/") {
				t.Errorf("object %q was taken as %+v", text, object)
			}
		}
		var prefix, again prefixURL
		if prefix.UnmarshalText([]byte(text)) == nil {
			if prefix.String() != text && prefix.String() != text+"/" {
				t.Errorf("prefix %q became %q", text, prefix)
			}
			if err := again.UnmarshalText([]byte(prefix.String())); err != nil || again != prefix {
				t.Errorf("prefix %q became %+v, %v", text, again, err)
			}
		} else if object != (objectURL{}) {
			t.Errorf("%q is an object's URL but not a prefix's", text)
		}
	})
}
