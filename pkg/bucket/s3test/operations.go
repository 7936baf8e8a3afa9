package s3test

import (
	"bytes"
	"encoding/base64"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/lockstep-pipeline/lockstep/pkg/bucket"
)

// serve carries a request out on the memory.
func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	s.stamp(w)
	op, key := s.operation(r)
	condition := bucket.Condition{IfMatch: r.Header.Get("If-Match"), IfNoneMatch: r.Header.Get("If-None-Match")}
	var err error
	switch op {
	case "get":
		err = s.get(w, r, key, condition)
	case "head":
		err = s.head(w, r, key)
	case "versions":
		err = s.versions(w, r)
	case "put":
		err = s.put(w, r, key, condition)
	case "delete":
		if err = s.remove(r, key); err == nil {
			w.WriteHeader(http.StatusNoContent)
		}
	case "list":
		err = s.list(w, r)
	case "create":
		s.createUpload(w, r, key)
	case "part":
		err = s.uploadPart(w, r, key)
	case "complete":
		err = s.completeUpload(w, r, key)
	case "abort":
		s.abortUpload(w, r, key)
	default:
		writeError(w, http.StatusNotImplemented, "NotImplemented")
	}
	var call *bucket.CallError
	switch {
	case err == nil:
	case errors.As(err, &call) && call.Status != 0:
		if errors.Is(err, bucket.ErrDeleteMarker) {
			w.Header().Set("X-Amz-Delete-Marker", "true")
		}
		if r.Method == http.MethodHead {
			w.WriteHeader(call.Status)
			return
		}
		writeError(w, call.Status, call.Code)
	default: // the memory's own fault hook: no answer
		panic(http.ErrAbortHandler)
	}
}

func (s *Server) get(w http.ResponseWriter, r *http.Request, key string, c bucket.Condition) error {
	object, err := s.open(r, key, c)
	if err != nil {
		return err
	}
	header := w.Header()
	describe(header, object)
	status, length := http.StatusOK, object.Size
	if asked := r.Header.Get("Range"); asked != "" {
		first, last, ok := byteRange(asked, object.Size)
		if !ok {
			writeError(w, http.StatusRequestedRangeNotSatisfiable, "InvalidRange")
			return nil
		}
		header.Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", first, last, object.Size))
		status, length = http.StatusPartialContent, last-first+1
		if _, err := io.CopyN(io.Discard, object.Body, first); err != nil {
			return err
		}
	}
	header.Set("Accept-Ranges", "bytes")
	header.Set("Content-Length", strconv.FormatInt(length, 10))
	header.Set("Content-Type", "binary/octet-stream")
	w.WriteHeader(status)
	_, err = io.CopyN(w, object.Body, length)
	return err
}

// open reads the object, or the version that the request names.
func (s *Server) open(r *http.Request, key string, c bucket.Condition) (*bucket.Object, error) {
	if version := r.URL.Query().Get("versionId"); version != "" {
		return s.memory.GetVersion(r.Context(), key, version)
	}
	return s.memory.Get(r.Context(), key, c)
}

func (s *Server) remove(r *http.Request, key string) error {
	if version := r.URL.Query().Get("versionId"); version != "" {
		return s.memory.DeleteVersion(r.Context(), key, version)
	}
	return s.memory.Delete(r.Context(), key)
}

func (s *Server) head(w http.ResponseWriter, r *http.Request, key string) error {
	object, err := s.memory.Head(r.Context(), key)
	if err != nil {
		return err
	}
	describe(w.Header(), object)
	w.Header().Set("Content-Length", strconv.FormatInt(object.Size, 10))
	w.WriteHeader(http.StatusOK)
	return nil
}

// metadataHeader begins the headers of metadata.
const metadataHeader = "X-Amz-Meta-"

// describe sets the headers that say what an object is.
func describe(header http.Header, object *bucket.Object) {
	header.Set("ETag", object.ETag)
	header.Set("Last-Modified", object.LastModified.UTC().Format(http.TimeFormat))
	if object.VersionID != "" {
		header.Set("X-Amz-Version-Id", object.VersionID)
	}
	for name, value := range object.Metadata {
		header.Set(metadataHeader+name, value)
	}
}

func metadataOf(header http.Header) map[string]string {
	metadata := map[string]string{}
	for name, values := range header {
		if name, is := strings.CutPrefix(http.CanonicalHeaderKey(name), metadataHeader); is {
			metadata[strings.ToLower(name)] = strings.Join(values, ",")
		}
	}
	return metadata
}

type listVersionsResult struct {
	XMLName      xml.Name `xml:"http://s3.amazonaws.com/doc/2006-03-01/ ListVersionsResult"`
	Name, Prefix string
	IsTruncated  bool
	Version      []listedVersion
	DeleteMarker []listedVersion
}

type listedVersion struct {
	Key          string
	VersionID    string `xml:"VersionId"`
	IsLatest     bool
	LastModified string
	ETag         string `xml:",omitempty"`
	Size         int64
}

// versions lists those of the one key that the prefix is.
func (s *Server) versions(w http.ResponseWriter, r *http.Request) error {
	key := r.URL.Query().Get("prefix")
	versions, err := s.memory.Versions(r.Context(), key)
	if err != nil {
		return err
	}
	result := listVersionsResult{Name: s.memory.Name(), Prefix: key}
	for _, v := range versions {
		listed := listedVersion{
			Key: key, VersionID: v.VersionID, IsLatest: v.IsLatest, ETag: v.ETag, Size: v.Size,
			LastModified: v.LastModified.UTC().Format("2006-01-02T15:04:05.000Z"),
		}
		if v.DeleteMarker {
			result.DeleteMarker = append(result.DeleteMarker, listed)
		} else {
			result.Version = append(result.Version, listed)
		}
	}
	writeXML(w, http.StatusOK, result)
	return nil
}

// byteRange reads "bytes=a-b" or "bytes=a-" for an object of size bytes. As on
// S3, what lies beyond the object's end is cut off, and a range that starts
// there is not satisfiable.
func byteRange(asked string, size int64) (first, last int64, ok bool) {
	from, to, _ := strings.Cut(strings.TrimPrefix(asked, "bytes="), "-")
	first, err := strconv.ParseInt(from, 10, 64)
	last = size - 1
	if err == nil && to != "" {
		last, err = strconv.ParseInt(to, 10, 64)
	}
	return first, min(last, size-1), err == nil && first <= last && first < size
}

func (s *Server) put(w http.ResponseWriter, r *http.Request, key string, c bucket.Condition) error {
	if c.IfNoneMatch != "" && c.IfNoneMatch != "*" || c.IfMatch != "" && c.IfNoneMatch != "" || c.IfMatch == "*" {
		writeError(w, http.StatusNotImplemented, "NotImplemented")
		return nil
	}
	content, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	written, err := s.memory.PutWith(r.Context(), key, bytes.NewReader(content), bucket.PutOptions{
		ContentType: r.Header.Get("Content-Type"), Metadata: metadataOf(r.Header), Condition: c,
	})
	if err != nil {
		return err
	}
	w.Header().Set("ETag", written.ETag)
	w.WriteHeader(http.StatusOK)
	return nil
}

// listParameters are the query parameters that list obeys.
var listParameters = map[string]bool{
	"list-type": true, "x-id": true, "prefix": true, "start-after": true,
	"continuation-token": true, "max-keys": true, "encoding-type": true,
}

func (s *Server) list(w http.ResponseWriter, r *http.Request) error {
	query := r.URL.Query()
	for parameter := range query {
		if !listParameters[parameter] {
			writeError(w, http.StatusNotImplemented, "NotImplemented")
			return nil
		}
	}
	maxKeys, err := strconv.ParseInt(query.Get("max-keys"), 10, 32)
	if query.Has("max-keys") && (err != nil || maxKeys < 0) {
		writeError(w, http.StatusBadRequest, "InvalidArgument")
		return nil
	}
	after := query.Get("start-after")
	if token := query.Get("continuation-token"); token != "" {
		last, err := base64.RawURLEncoding.DecodeString(token)
		if err != nil {
			writeError(w, http.StatusBadRequest, "InvalidArgument")
			return nil
		}
		after = string(last)
	}
	options := bucket.ListOptions{Prefix: query.Get("prefix"), StartAfter: after, PageSize: int32(maxKeys)}
	for page, err := range s.memory.List(r.Context(), options) {
		if err != nil {
			return err
		}
		writeXML(w, http.StatusOK, listing(s.memory.Name(), query, page))
		break
	}
	return nil
}

type listBucketResult struct {
	XMLName               xml.Name `xml:"http://s3.amazonaws.com/doc/2006-03-01/ ListBucketResult"`
	Name                  string
	Prefix                string
	StartAfter            string `xml:",omitempty"`
	ContinuationToken     string `xml:",omitempty"`
	NextContinuationToken string `xml:",omitempty"`
	KeyCount              int
	MaxKeys               string
	EncodingType          string `xml:",omitempty"`
	IsTruncated           bool
	Contents              []listedObject
}

type listedObject struct {
	Key          string
	LastModified string
	ETag         string
	Size         int64
	StorageClass string
}

func listing(name string, query url.Values, page bucket.Page) listBucketResult {
	encode := func(s string) string { return s }
	if query.Get("encoding-type") == "url" {
		encode = func(s string) string { return strings.ReplaceAll(url.QueryEscape(s), "%2F", "/") }
	}
	result := listBucketResult{
		Name: name, Prefix: encode(query.Get("prefix")), StartAfter: encode(query.Get("start-after")),
		ContinuationToken: query.Get("continuation-token"), KeyCount: len(page.Entries),
		MaxKeys: query.Get("max-keys"), EncodingType: query.Get("encoding-type"), IsTruncated: !page.Last,
	}
	if result.MaxKeys == "" {
		result.MaxKeys = "1000"
	}
	for _, e := range page.Entries {
		class := e.StorageClass
		if class == "" {
			class = "STANDARD"
		}
		result.Contents = append(result.Contents, listedObject{
			Key: encode(e.Key), LastModified: e.LastModified.UTC().Format("2006-01-02T15:04:05.000Z"),
			ETag: e.ETag, Size: e.Size, StorageClass: class,
		})
	}
	if !page.Last {
		last := page.Entries[len(page.Entries)-1].Key
		result.NextContinuationToken = base64.RawURLEncoding.EncodeToString([]byte(last))
	}
	return result
}

type errorDocument struct {
	XMLName   xml.Name `xml:"Error"`
	Code      string
	Message   string
	RequestID string `xml:"RequestId"`
}

func writeError(w http.ResponseWriter, status int, code string) {
	if status == http.StatusNotModified { // has no body by definition
		w.WriteHeader(status)
		return
	}
	writeXML(w, status, errorDocument{Code: code, Message: "s3test answers " + code, RequestID: "S3TEST"})
}

func writeXML(w http.ResponseWriter, status int, document any) {
	content, err := xml.Marshal(document)
	if err != nil {
		panic(err) // a defect of this package
	}
	content = append([]byte(xml.Header), content...)
	w.Header().Set("Content-Type", "application/xml")
	w.Header().Set("Content-Length", strconv.Itoa(len(content)))
	w.WriteHeader(status)
	w.Write(content)
}
