package s3lock

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/lockstep-pipeline/lockstep/pkg/bucket"
)

// This file asks whether the caller may do what a lock does, one IAM action at
// a time.

func (p *probe) key() string     { return p.folder + "object" }
func (p *probe) missing() string { return p.folder + "missing" }

var create = bucket.Condition{IfNoneMatch: "*"}

func (p *probe) checkWrite(ctx context.Context) Finding {
	v, err := p.write(ctx, p.key(), create)
	switch {
	case errors.Is(err, bucket.ErrPrecondition):
		p.blocked = "nothing can be created"
		return refused("a PUT with If-None-Match: * was refused for an object that does not exist",
			"no lock could ever be taken here")
	case err != nil:
		return p.blockedBy("put", err, "nothing can be written")
	}
	p.object = v
	return ok("created an object with If-None-Match: *")
}

func (p *probe) checkRead(ctx context.Context) Finding {
	v, err := p.read(ctx, p.key(), bucket.Condition{})
	switch {
	case errors.Is(err, bucket.ErrNotFound):
		return refused("an object just created was not found", "a reader here sees an older state than a writer left")
	case err != nil:
		return p.blockedBy("get", err, "nothing can be read")
	case v.content != p.object.content:
		p.blocked = "what is read is not what was written"
		return refused(fmt.Sprintf("wrote %d bytes and read %d others", len(p.object.content), len(v.content)),
			"something on the way changes contents")
	}
	return ok("read back what was written")
}

// checkMissing: a lock that has never been used is an object that is not there.
func (p *probe) checkMissing(ctx context.Context) Finding {
	_, err := p.read(ctx, p.missing(), bucket.Condition{})
	var call *bucket.CallError
	switch {
	case errors.Is(err, bucket.ErrNotFound):
		return ok("a missing object is answered with 404 NoSuchKey")
	case err == nil:
		return refused("an object was read that nobody wrote", "a lock that was never used would look corrupt")
	case denied(err):
		f := p.trouble("list", err)
		f.Detail = "a missing object is answered with 403 and not with 404"
		f.Advice = "without s3:ListBucket on the bucket, S3 does not tell a missing object from a forbidden one, and a first lock is never taken; " + f.Advice
		return f
	case errors.As(err, &call) && call.Status == http.StatusNotFound:
		return refused(fmt.Sprintf("a missing object is answered with 404 and the code %q", call.Code),
			"S3 says NoSuchKey; by anything else a missing object cannot be told from a missing bucket")
	}
	return p.trouble("get", err)
}

func (p *probe) checkListing(ctx context.Context) Finding {
	var listed *bucket.Entry
	err := p.patiently(ctx, func(ctx context.Context) error {
		for page, err := range p.store.List(ctx, bucket.ListOptions{Prefix: p.folder}) {
			if err != nil {
				return err
			}
			for _, e := range page.Entries {
				if e.Key == p.key() {
					listed = &e
				}
			}
		}
		return nil
	})
	switch {
	case errors.Is(err, bucket.ErrListing):
		return refused(err.Error(), "files would be overlooked, or done twice")
	case err != nil:
		return p.trouble("list", err)
	case listed == nil:
		return refused("a listing does not show an object that was written before it", "files would be overlooked, or done twice")
	case listed.ETag != p.object.ETag:
		return refused(fmt.Sprintf("an object that is read with the ETag %s is listed with %s", p.object.ETag, listed.ETag),
			"a file is read at the version that was listed, and would be taken for changed, for ever; a lock alone (exec) is not concerned")
	}
	return ok("an object is listed at once, with the ETag that a read gives")
}

// blockedBy is trouble that ends the probe, since all other checks need this call.
func (p *probe) blockedBy(op string, err error, why string) Finding {
	p.blocked = why
	return p.trouble(op, err)
}

// actions are what IAM calls the operations.
var actions = map[string]string{"get": "s3:GetObject", "put": "s3:PutObject", "list": "s3:ListBucket", "delete": "s3:DeleteObject"}

// trouble is the finding of a call that did not get far enough to tell.
func (p *probe) trouble(op string, err error) Finding {
	f := Finding{Verdict: Unknown, Detail: err.Error(), Err: err}
	var call *bucket.CallError
	errors.As(err, &call)
	switch {
	case denied(err):
		f.Verdict = Denied
		f.Permission = actions[op]
		f.Detail = fmt.Sprintf("a %s was answered %d %s", strings.ToUpper(op), call.Status, call.Code)
		f.Advice = fmt.Sprintf("allow the caller %s on %s", actions[op], p.resource(op))
		switch op {
		case "put":
			f.Advice += "; if it is allowed, see whether the bucket policy demands an encryption key (then also kms:GenerateDataKey on it), a checksum or another owner"
		case "get":
			f.Advice += "; if it is allowed, the object's key may want kms:Decrypt"
		}
	case errors.Is(err, bucket.ErrNoServerTime):
		f.Detail = "the answer has no Date"
		p.blocked = "an answer without a Date cannot be used"
	case call != nil && call.Status == http.StatusNotImplemented:
		f.Verdict = Refused
		f.Detail = fmt.Sprintf("a %s was answered %d %s", strings.ToUpper(op), call.Status, call.Code)
		f.Advice = "the store does not have conditional requests, without which no lock can be kept"
	case errors.Is(err, context.DeadlineExceeded):
		f.Detail = "no answer came in time: " + err.Error()
		f.Advice = "check the endpoint and the network, or allow more time"
	}
	return f
}

func (p *probe) resource(op string) string {
	name := "BUCKET"
	if named, isNamed := p.store.bucket.(interface{ Name() string }); isNamed {
		name = named.Name()
	}
	if op == "list" {
		return "arn:aws:s3:::" + name
	}
	return "arn:aws:s3:::" + name + "/" + strings.TrimSuffix(p.folder, ".lockstep-probe-"+p.name+"/") + "*"
}

// denied reports a refusal of what was asked; a 403 may also be one of who
// asked, or when.
// Source: S3 API reference, "Error responses".
func denied(err error) bool {
	var call *bucket.CallError
	if !errors.As(err, &call) || call.Status != http.StatusForbidden {
		return false
	}
	switch call.Code {
	case "InvalidAccessKeyId", "SignatureDoesNotMatch", "RequestTimeTooSkewed", "InvalidToken", "ExpiredToken":
		return false
	}
	return true
}

func ok(detail string) Finding { return Finding{Verdict: OK, Detail: detail} }

func refused(detail, advice string) Finding {
	return Finding{Verdict: Refused, Detail: detail, Advice: advice}
}
