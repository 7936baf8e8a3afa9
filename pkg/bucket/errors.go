package bucket

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/smithy-go"
)

// The answers of S3 that callers decide on. Each is certain: the request that
// got it wrote nothing. After any other error a write may have landed.
var (
	// ErrNotFound: no such object (404 NoSuchKey), or its newest version is a
	// delete marker. A missing bucket and a 404 without that code are not it:
	// taking a typo for a missing object would make an empty ledger of it.
	ErrNotFound = errors.New("object not found")
	// ErrNotModified: a conditional GET found the version the caller knows (304).
	ErrNotModified = errors.New("object not modified")
	// ErrPrecondition: the object is not at the version the request named (412).
	ErrPrecondition = errors.New("object is at another version")
	// ErrConflict: a concurrent write or delete got in between (409); nothing
	// was written by this request, and the same request may be sent again.
	// Source: S3 API reference, PutObject, ConditionalRequestConflict.
	ErrConflict = errors.New("conflicting concurrent request")
)

// ErrDeleteMarker: the newest version of the object is a delete marker: somebody
// deleted it in a bucket that keeps versions. Such an answer is ErrNotFound, too.
var ErrDeleteMarker = errors.New("object was deleted, and its bucket keeps a delete marker")

// ErrNoServerTime: the call succeeded, but its answer carried no Date header.
// A proxy that drops the header has to be told to keep it: leases are judged
// by that clock alone. Like any other error of a PUT it comes after the write.
var ErrNoServerTime = errors.New("the answer has no Date header, and this project lives by the server's clock")

// ErrSlowDown: the server refused the call to the end because too many
// requests come in (503 SlowDown or ServiceUnavailable, 429, or a throttling
// code); the SDK's own retries are used up. The same call may succeed later,
// with fewer others beside it. Of a PUT it is no verdict: an attempt before the
// last may have landed.
//
// Source: S3 User Guide, "HTTP 5xx error responses".
var ErrSlowDown = errors.New("the server asks for fewer requests")

// ErrRange: the answer to GetRange is not the part that was asked for, or the
// object has no such part (416).
var ErrRange = errors.New("not the part of the object that was asked for")

// verdicts are the answers behind the sentinels, as S3 gives them.
var verdicts = []struct {
	kind   error
	status int
	code   string
}{
	{ErrNotFound, http.StatusNotFound, "NoSuchKey"},
	{ErrNotModified, http.StatusNotModified, "NotModified"},
	{ErrPrecondition, http.StatusPreconditionFailed, "PreconditionFailed"},
	{ErrConflict, http.StatusConflict, "ConditionalRequestConflict"},
}

// CallError is a failed S3 call: which call, on what, why, and what the
// server's clock said when it answered.
type CallError struct {
	Op         string    // "get", "head", "put", "delete", "list", "versions"
	Bucket     string    // bucket name
	Key        string    // the prefix for a listing
	Status     int       // HTTP status, 0 when no answer came
	Code       string    // S3 error code, "" when no answer came
	ServerTime time.Time // the answer's Date; zero when it had none
	kind       error     // the sentinel of a verdict, or nil
	nature     error     // ErrSlowDown, ErrRange or ErrDeleteMarker, where the answer is of that nature
	err        error
}

// Error names the call, the object and the reason, and where there is a usual
// way out, that too.
func (e *CallError) Error() string {
	if e.kind != nil {
		return fmt.Sprintf("%s %s: %v", e.Op, location(e.Bucket, e.Key), e.kind)
	}
	text := fmt.Sprintf("%s %s: %v", e.Op, location(e.Bucket, e.Key), e.err)
	if hint := e.hint(); hint != "" {
		text += " (" + hint + ")"
	}
	return text
}

// Unwrap returns the sentinel, if there is one, and the SDK's own error.
func (e *CallError) Unwrap() []error {
	return slices.DeleteFunc([]error{e.kind, e.nature, e.err}, func(err error) bool { return err == nil })
}

// hint is what to do about an answer that people meet when they set up a
// bucket. The codes are those of the S3 API reference, "Error responses".
func (e *CallError) hint() string {
	switch e.Code {
	case "AccessDenied":
		if e.Op == "get" {
			return "the caller may lack s3:GetObject here or kms:Decrypt on its key; without s3:ListBucket, S3 gives this answer for an object that does not exist, too"
		}
		return "allow the caller this action; if it is allowed, see whether the bucket policy demands an encryption key, a checksum or another owner"
	case "NoSuchBucket":
		return "check the bucket's name, and that the endpoint and account are the right ones"
	case "PermanentRedirect", "AuthorizationHeaderMalformed", "IllegalLocationConstraintException":
		return "the bucket is in another region than the client: set AWS_REGION to the bucket's"
	case "ExpiredToken", "TokenRefreshRequired":
		return "the credentials' time is over: renew them, then try again"
	case "InvalidAccessKeyId", "InvalidToken", "SignatureDoesNotMatch":
		return "the server does not know these credentials: check the keys, the profile and the endpoint"
	case "RequestTimeTooSkewed":
		return "this machine's clock differs from the server's by more than 15 minutes: set it"
	case "InvalidObjectState":
		return "the object is archived: restore it, or exclude its storage class"
	case "InvalidRange":
		return "the object is shorter than its reader expects"
	}
	if strings.HasPrefix(e.Code, "KMS.") {
		return "the encryption key cannot be used: see whether it is enabled, and whether the caller may use it"
	}
	if e.nature == ErrSlowDown {
		return "send fewer requests at once; S3 raises its rate for a busy prefix within minutes"
	}
	return ""
}

// ServerTime returns the server's clock from an error that came with an
// answer: a 304 or a 404 tells the time as well as a 200.
func ServerTime(err error) (time.Time, bool) {
	var call *CallError
	if errors.As(err, &call) && !call.ServerTime.IsZero() {
		return call.ServerTime, true
	}
	return time.Time{}, false
}

// Transient reports whether the same call may well succeed later: no answer
// came in time, or it was cut, or it was a 409, a 429 or a 5xx. A call that
// the caller cancelled, or that never left (no credentials, a bad argument),
// is not transient.
func Transient(err error) bool {
	var call *CallError
	if !errors.As(err, &call) {
		return false
	}
	switch s := call.Status; {
	case call.Code == "NoSuchUpload": // perhaps a lost reply to the request that completed it
		return true
	case s == http.StatusConflict, s == http.StatusTooManyRequests, s >= 500:
		return true
	case s >= 200 && s < 300: // done by its status, unreadable by its body
		return !errors.Is(err, ErrNoServerTime) && !errors.Is(err, ErrRange)
	}
	return errors.Is(err, context.DeadlineExceeded) ||
		retryables.IsErrorRetryable(call.err) == aws.TrueTernary
}

// OutOfService reports whether a call failed for reasons that have nothing to do
// with the object: the bucket, the credentials, the clock, or an encryption key.
// Any other call would fail the same way. AccessDenied is not among them: it may
// be about one object.
//
// Source: S3 API reference, "Error responses"; KMS API reference, "Common errors".
func OutOfService(err error) bool {
	var call *CallError
	if !errors.As(err, &call) {
		return false
	}
	if strings.HasPrefix(call.Code, "KMS.") {
		return true
	}
	if call.Status == 0 && !Transient(err) { // it never left: no credentials, no such host
		return !errors.Is(err, context.Canceled)
	}
	return slices.Contains(outOfService, call.Code)
}

var outOfService = []string{
	"NoSuchBucket", "PermanentRedirect", "AuthorizationHeaderMalformed", "IllegalLocationConstraintException",
	"ExpiredToken", "InvalidToken", "TokenRefreshRequired", "InvalidAccessKeyId", "SignatureDoesNotMatch", "InvalidSecurity",
	"RequestTimeTooSkewed", "RequestExpired", "AccountProblem", "AllAccessDisabled", "NotSignedUp",
}

var retryables = retry.IsErrorRetryables(retry.DefaultRetryables)

// callError gives an error of the SDK its place and its meaning.
func callError(op, bucket, key string, err error) *CallError {
	e := &CallError{Op: op, Bucket: bucket, Key: key, err: err}
	var response *awshttp.ResponseError
	if errors.As(err, &response) && response.Response != nil {
		e.Status = response.HTTPStatusCode()
		if date, parseErr := http.ParseTime(response.Response.Header.Get("Date")); parseErr == nil {
			e.ServerTime = date
		}
		if e.Status == http.StatusNotFound && response.Response.Header.Get("X-Amz-Delete-Marker") == "true" {
			e.nature = ErrDeleteMarker
		}
	}
	var api smithy.APIError
	if errors.As(err, &api) {
		e.Code = api.ErrorCode()
	}
	e.kind = kindOf(e.Status, e.Code)
	if e.nature == nil {
		e.nature = natureOf(e.Status, err)
	}
	// The document of a 404 echoes the key. XML cannot carry control characters,
	// so for a key that has some it cannot be read, and gives no code.
	if e.Status == http.StatusNotFound && e.Code == "" && op != "list" && strings.ContainsFunc(key, beyondXML) {
		e.kind = ErrNotFound
	}
	return e
}

// natureOf returns ErrSlowDown or ErrRange for such an answer, else nil.
func natureOf(status int, err error) error {
	switch {
	case status == http.StatusRequestedRangeNotSatisfiable:
		return ErrRange
	case status == http.StatusServiceUnavailable, status == http.StatusTooManyRequests, // whatever the code: a proxy's page has none
		throttles.IsErrorThrottle(err) == aws.TrueTernary:
		return ErrSlowDown
	}
	return nil
}

var throttles = retry.IsErrorThrottles(retry.DefaultThrottles)

// beyondXML reports a character that an XML 1.0 document cannot hold.
func beyondXML(r rune) bool {
	return r < ' ' && r != '\t' && r != '\n' && r != '\r' || r == '\ufffe' || r == '\uffff'
}

func kindOf(status int, code string) error {
	for _, v := range verdicts {
		// S3 names the reason of a 409 in several ways, all of the same meaning,
		// and a 304 has no body that could name one; a 404 must say of what.
		if v.status == status && (status != http.StatusNotFound || v.code == code) {
			return v.kind
		}
	}
	return nil
}

// location is an object's address for people: keys may hold newlines and
// control characters, which must not reach a log as they are.
func location(bucket, key string) string {
	plain := "s3://" + bucket + "/" + key
	if quoted := strconv.Quote(plain); quoted != `"`+plain+`"` {
		return quoted
	}
	return plain
}
