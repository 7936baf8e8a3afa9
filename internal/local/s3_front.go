package local

import (
	"encoding/hex"
	"encoding/xml"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// s3Front is the part of S3 that the project uses, with exact keys, on top of
// kumo. A key is stored under its hexadecimal form, which survives kumo's path
// cleaning and its XML and keeps both order and prefixes: a < b exactly when
// hex(a) < hex(b), and a starts with p exactly when hex(a) starts with hex(p).
// A bucket is stored under a name that only this stack uses.
type s3Front struct {
	emulator  *url.URL
	transport http.RoundTripper
	prefix    string // of the stored bucket names
}

const (
	maxKeyBytes = 1024
	maxListKeys = 1000
)

var bucketName = regexp.MustCompile(`^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$`)

var (
	bucketMethods = []string{http.MethodPut, http.MethodHead, http.MethodDelete}
	objectMethods = []string{http.MethodPut, http.MethodGet, http.MethodHead, http.MethodDelete}
)

func (f *s3Front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	bucket, key, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	query := r.URL.Query()
	query.Del("x-id") // the SDK's name for the operation, without effect
	switch {
	case bucket == "" || r.Header.Get("X-Amz-Copy-Source") != "":
		refuseS3(w, http.StatusNotImplemented, "NotImplemented", "The local S3 does not have this operation.")
	case !bucketName.MatchString(bucket):
		refuseS3(w, http.StatusBadRequest, "InvalidBucketName", "The specified bucket is not valid.")
	case len(key) > maxKeyBytes:
		refuseS3(w, http.StatusBadRequest, "KeyTooLongError", "Your key is too long.")
	case key == "" && r.Method == http.MethodGet && query.Get("list-type") == "2" && query.Get("delimiter") == "":
		f.list(w, r, bucket, query)
	case key == "" && len(query) == 0 && slices.Contains(bucketMethods, r.Method):
		f.pass(w, r, "/"+f.prefix+bucket)
	case key != "" && len(query) == 0 && slices.Contains(objectMethods, r.Method):
		f.pass(w, r, "/"+f.prefix+bucket+"/"+storedKey(key))
	case key != "" && isUpload(r.Method, query):
		f.upload(w, r, bucket, key, query)
	default:
		refuseS3(w, http.StatusNotImplemented, "NotImplemented", "The local S3 does not have this operation.")
	}
}

func (f *s3Front) pass(w http.ResponseWriter, r *http.Request, path string) {
	passOn(f.emulator, f.transport, path, "", nil).ServeHTTP(w, r)
}

func storedKey(key string) string { return hex.EncodeToString([]byte(key)) }

// list answers ListObjectsV2.
func (f *s3Front) list(w http.ResponseWriter, r *http.Request, bucket string, asked url.Values) {
	query := url.Values{
		"list-type":   {"2"},
		"prefix":      {storedKey(asked.Get("prefix"))},
		"start-after": {storedKey(asked.Get("start-after"))},
		"max-keys":    {pageSize(asked.Get("max-keys"))},
		// kumo's token is the last stored key of the page: opaque, as it should be.
		"continuation-token": {asked.Get("continuation-token")},
	}
	passOn(f.emulator, f.transport, "/"+f.prefix+bucket, query.Encode(), func(resp *http.Response) error {
		if resp.StatusCode != http.StatusOK {
			return nil
		}
		defer resp.Body.Close()
		var listing listing
		if err := xml.NewDecoder(resp.Body).Decode(&listing); err != nil {
			return fmt.Errorf("read the emulator's listing of %s: %w", bucket, err)
		}
		if err := listing.repair(bucket, asked); err != nil {
			return fmt.Errorf("read the emulator's listing of %s: %w", bucket, err)
		}
		body, err := xml.Marshal(listing)
		if err != nil {
			return fmt.Errorf("write the listing of %s: %w", bucket, err)
		}
		setBody(resp, xml.Header+string(body))
		return nil
	}).ServeHTTP(w, r)
}

// setBody puts body in the place of the emulator's.
func setBody(resp *http.Response, body string) {
	resp.Header.Set("Content-Length", strconv.Itoa(len(body)))
	resp.ContentLength = int64(len(body))
	resp.TransferEncoding = nil
	resp.Body = io.NopCloser(strings.NewReader(body))
}

// pageSize caps what is asked for, as S3 does; kumo returns as many as asked.
func pageSize(asked string) string {
	if n, err := strconv.Atoi(asked); err == nil && n > 0 && n < maxListKeys {
		return asked
	}
	return strconv.Itoa(maxListKeys)
}

// listing is the ListBucketResult of ListObjectsV2.
type listing struct {
	XMLName               xml.Name       `xml:"http://s3.amazonaws.com/doc/2006-03-01/ ListBucketResult"`
	Name                  string         `xml:"Name"`
	Prefix                string         `xml:"Prefix"`
	StartAfter            string         `xml:"StartAfter,omitempty"`
	ContinuationToken     string         `xml:"ContinuationToken,omitempty"`
	NextContinuationToken string         `xml:"NextContinuationToken,omitempty"`
	KeyCount              int            `xml:"KeyCount"`
	MaxKeys               int            `xml:"MaxKeys"`
	EncodingType          string         `xml:"EncodingType,omitempty"`
	IsTruncated           bool           `xml:"IsTruncated"`
	Contents              []listedObject `xml:"Contents"`
}

type listedObject struct {
	Key          string `xml:"Key"`
	LastModified string `xml:"LastModified"`
	ETag         string `xml:"ETag"`
	Size         int64  `xml:"Size"`
	StorageClass string `xml:"StorageClass"`
}

// repair turns what kumo listed into what S3 would have.
func (l *listing) repair(bucket string, asked url.Values) error {
	text := func(s string) string { return s }
	if l.EncodingType = asked.Get("encoding-type"); l.EncodingType == "url" {
		text = encodeListed
	}
	l.Name = bucket
	l.Prefix = text(asked.Get("prefix"))
	l.StartAfter = text(asked.Get("start-after"))
	for i := range l.Contents {
		object := &l.Contents[i]
		key, err := hex.DecodeString(object.Key)
		if err != nil {
			return fmt.Errorf("stored key %q: %w", object.Key, err)
		}
		object.Key = text(string(key))
		// kumo formats local time and appends a Z. In the hour that repeats when
		// summer time ends the two cannot be told apart.
		modified, err := time.ParseInLocation(listedTime, object.LastModified, time.Local)
		if err != nil {
			return fmt.Errorf("object %q: %w", key, err)
		}
		object.LastModified = modified.UTC().Format(listedTime)
	}
	return nil
}

const listedTime = "2006-01-02T15:04:05.000Z"

// encodeListed is S3's encoding-type=url: a space is "+", a "/" stays.
func encodeListed(s string) string {
	return strings.ReplaceAll(url.QueryEscape(s), "%2F", "/")
}

func refuseS3(w http.ResponseWriter, status int, code, message string) {
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(status)
	_, _ = fmt.Fprintf(w, "%s<Error><Code>%s</Code><Message>%s</Message></Error>", xml.Header, code, message)
}
