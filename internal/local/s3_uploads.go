package local

import (
	"encoding/xml"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// uploadCalls are the four calls of a multipart upload, by method and the
// names of their parameters.
var uploadCalls = []string{
	"POST uploads",            // CreateMultipartUpload
	"PUT partNumber uploadId", // UploadPart
	"POST uploadId",           // CompleteMultipartUpload
	"DELETE uploadId",         // AbortMultipartUpload
}

func isUpload(method string, query url.Values) bool {
	return slices.Contains(uploadCalls, method+" "+strings.Join(slices.Sorted(maps.Keys(query)), " "))
}

// upload carries out a call of a multipart upload. kumo's are right but for the
// names in its answers, which are those of the stored bucket and key.
func (f *s3Front) upload(w http.ResponseWriter, r *http.Request, bucket, key string, query url.Values) {
	path := "/" + f.prefix + bucket + "/" + storedKey(key)
	passOn(f.emulator, f.transport, path, query.Encode(), func(resp *http.Response) error {
		if r.Method != http.MethodPost || resp.StatusCode != http.StatusOK {
			return nil
		}
		defer resp.Body.Close()
		var result uploadResult
		if err := xml.NewDecoder(resp.Body).Decode(&result); err != nil {
			return fmt.Errorf("read the emulator's answer about the upload of %s/%s: %w", bucket, key, err)
		}
		result.Bucket, result.Key = bucket, key
		if result.Location != "" {
			result.Location = "http://" + r.Host + (&url.URL{Path: "/" + bucket + "/" + key}).EscapedPath()
		}
		body, err := xml.Marshal(result)
		if err != nil {
			return fmt.Errorf("write the answer about the upload of %s/%s: %w", bucket, key, err)
		}
		setBody(resp, xml.Header+string(body))
		return nil
	}).ServeHTTP(w, r)
}

// uploadResult is an InitiateMultipartUploadResult or a
// CompleteMultipartUploadResult, as its XMLName says.
type uploadResult struct {
	XMLName  xml.Name
	Location string `xml:"Location,omitempty"`
	Bucket   string `xml:"Bucket"`
	Key      string `xml:"Key"`
	UploadID string `xml:"UploadId,omitempty"`
	ETag     string `xml:"ETag,omitempty"`
}
