package s3lock

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/lockstep-pipeline/lockstep/pkg/bucket"
)

// This file asks whether the store enforces its conditions when one client
// asks at a time.

// checkETag: what a write is told must be what a read is told, byte for byte,
// since either is sent back.
func (p *probe) checkETag(ctx context.Context) Finding {
	v, err := p.read(ctx, p.key(), bucket.Condition{})
	switch {
	case err != nil:
		return p.trouble("get", err)
	case v.ETag == "" || p.object.ETag == "":
		p.blocked = "there are no ETags to make conditions of"
		return refused("an object comes without an ETag", "without one, no write can depend on what it replaces")
	case v.ETag != p.object.ETag:
		return refused(fmt.Sprintf("written as %s, the same object is read as %s", p.object.ETag, v.ETag),
			"the ETag of a write could not be used in a condition; something on the way may change it (compression, or quotes put on or taken off)")
	}
	return ok("a write and a read give the same ETag, " + v.ETag)
}

func (p *probe) checkCreate(ctx context.Context) Finding {
	return p.mustRefuse(ctx, create, "a PUT with If-None-Match: * of an object that exists",
		"two clients could both create one lock")
}

func (p *probe) checkSwap(ctx context.Context) Finding {
	v, err := p.write(ctx, p.key(), bucket.Condition{IfMatch: p.object.ETag})
	switch {
	case errors.Is(err, bucket.ErrPrecondition), errors.Is(err, bucket.ErrNotFound):
		return refused(fmt.Sprintf("a PUT with If-Match %s, the ETag exactly as it came, was refused", p.object.ETag),
			"no lock could be renewed or released here; something on the way may change ETags")
	case err != nil:
		return p.trouble("put", err)
	}
	now, err := p.read(ctx, p.key(), bucket.Condition{})
	switch {
	case err != nil:
		return p.trouble("get", err)
	case now.content != v.content:
		return refused("a PUT with the right If-Match was accepted, but a read does not show what it wrote",
			"a reader here sees an older state than a writer left")
	case now.ETag != v.ETag:
		return refused(fmt.Sprintf("written as %s, the same object is read as %s", v.ETag, now.ETag), "the ETag of a write could not be used in a condition")
	case now.ETag == p.object.ETag:
		return refused(fmt.Sprintf("two different contents of one length have the same ETag %s", now.ETag),
			"a stale write could not be told from a right one")
	}
	p.earlier, p.object = p.object.Written, v
	return ok("a PUT with the ETag as it came was accepted")
}

func (p *probe) checkStaleSwap(ctx context.Context) Finding {
	if p.earlier.ETag == "" {
		return Finding{Verdict: Unknown, Detail: "not tried: no swap was made, so there is no stale ETag"}
	}
	return p.mustRefuse(ctx, bucket.Condition{IfMatch: p.earlier.ETag}, "a PUT with the If-Match of an earlier version",
		"a client that was late could overwrite another's lock")
}

// mustRefuse makes a write that has to be refused, and leave things as they are.
func (p *probe) mustRefuse(ctx context.Context, c bucket.Condition, what, meaning string) Finding {
	v, err := p.write(ctx, p.key(), c)
	if err != nil && !errors.Is(err, bucket.ErrPrecondition) {
		return p.trouble("put", err)
	}
	now, readErr := p.read(ctx, p.key(), bucket.Condition{})
	if readErr != nil {
		return p.trouble("get", readErr)
	}
	before := p.object
	p.object = now
	switch {
	case err == nil:
		return refused(what+" was accepted", "the store ignores the condition: "+meaning)
	case now.content == v.content:
		return refused(what+" was answered with 412, and written all the same", "the store does not enforce the condition: "+meaning)
	case now.content != before.content:
		return refused(what+" was answered with 412, and the object is not what it was", "the store does not enforce the condition: "+meaning)
	}
	return ok(what + " was refused")
}

func (p *probe) checkMissingSwap(ctx context.Context) Finding {
	const what = "a PUT with an If-Match of an object that does not exist"
	p.remember(p.missing()) // a store may refuse a write and keep it
	_, err := p.write(ctx, p.missing(), bucket.Condition{IfMatch: p.object.ETag})
	if err != nil && !certain(err) {
		return p.trouble("put", err)
	}
	_, readErr := p.read(ctx, p.missing(), bucket.Condition{})
	switch {
	case err == nil:
		return refused(what+" was accepted", "the store ignores the condition: after a delete by hand, a late client could bring back a lock of the past")
	case readErr == nil:
		return refused(what+" was refused, and written all the same", "the store does not enforce the condition")
	case !errors.Is(readErr, bucket.ErrNotFound) && !denied(readErr):
		return p.trouble("get", readErr)
	}
	return ok(what + " was refused")
}

// checkUnquoted only tells how strict the store is: ETags are always sent back
// as they came.
func (p *probe) checkUnquoted(ctx context.Context) Finding {
	other, form := `"`+p.object.ETag+`"`, "with quotes put on"
	if bare, quoted := strings.CutPrefix(p.object.ETag, `"`); quoted {
		other, form = strings.TrimSuffix(bare, `"`), "without its quotes"
	}
	v, err := p.write(ctx, p.key(), bucket.Condition{IfMatch: other})
	var call *bucket.CallError
	switch {
	case err == nil:
		p.earlier, p.object = p.object.Written, v
		return ok("the ETag is also taken " + form)
	case errors.As(err, &call) && call.Status >= 400 && call.Status < 500:
		return ok("the ETag is taken only as it came, not " + form)
	}
	return p.trouble("put", err)
}

// checkUnchanged: a waiter polls with the version it knows.
func (p *probe) checkUnchanged(ctx context.Context) Finding {
	if p.earlier.ETag == "" {
		return Finding{Verdict: Unknown, Detail: "not tried: there is no earlier version"}
	}
	_, err := p.read(ctx, p.key(), bucket.Condition{IfNoneMatch: p.earlier.ETag})
	switch {
	case errors.Is(err, bucket.ErrNotModified):
		return refused("a GET with the If-None-Match of an earlier version was answered with 304",
			"a waiter would never see that the lock is free")
	case err != nil:
		return p.trouble("get", err)
	}
	_, err = p.read(ctx, p.key(), bucket.Condition{IfNoneMatch: p.object.ETag})
	switch {
	case err == nil:
		return Finding{Verdict: Note, Detail: "a GET with the present If-None-Match was answered with 200 and not with 304",
			Advice: "a lock works, but each poll of a waiter transfers its document"}
	case !errors.Is(err, bucket.ErrNotModified):
		return p.trouble("get", err)
	}
	return ok("a GET of what is known already was answered with 304")
}

// checkPinned: a file is read at the version that was listed, or not at all.
func (p *probe) checkPinned(ctx context.Context) Finding {
	if p.earlier.ETag == "" {
		return Finding{Verdict: Unknown, Detail: "not tried: there is no earlier version"}
	}
	_, err := p.read(ctx, p.key(), bucket.Condition{IfMatch: p.earlier.ETag})
	switch {
	case err == nil:
		return refused("a GET with the If-Match of an earlier version was answered with the present one",
			"the store ignores the condition: a file that is replaced while it is read would be processed torn")
	case !errors.Is(err, bucket.ErrPrecondition):
		return p.trouble("get", err)
	}
	_, err = p.read(ctx, p.key(), bucket.Condition{IfMatch: p.object.ETag})
	switch {
	case errors.Is(err, bucket.ErrPrecondition):
		return refused(fmt.Sprintf("a GET with If-Match %s, the ETag exactly as it came, was refused", p.object.ETag),
			"no file could be read; something on the way may change ETags")
	case err != nil:
		return p.trouble("get", err)
	}
	return ok("a GET of a version that is gone was refused with 412")
}
