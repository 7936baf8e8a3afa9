package stack

import (
	"slices"

	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/jsii-runtime-go"
)

// This file says what each function may do. It follows internal/step: what a
// step does not do is not allowed. Functions are shared by the pipelines of a
// stack, so a statement names the places of all of them; pipelines that must
// not reach each other's data belong into stacks of their own.

// access collects the statements of a function.
func (b *builder) access(function string) []awsiam.PolicyStatement {
	a := &statements{b: b, objects: map[string]*objects{}}
	for p := range b.eachPipeline {
		at, state := b.keys(p), p.Config.State.Bucket
		source, destination := p.Config.Source, p.Config.Destination

		// Each step keeps the lease alive while it works. The listings that it makes
		// of the state lie in the folder in which it sees what is missing.
		a.allow("Lock", state, at.lock, "s3:GetObject", "s3:PutObject")
		a.seeMissing(state, p.Config.State.Prefix)

		switch function {
		case "acquire":
			if b.settings.Functions.Probing() {
				a.allow("ProbeLockPlace", state, at.probes, "s3:GetObject", "s3:PutObject", "s3:DeleteObject")
			}
		case "discover":
			// It reads manifests of runs that died, and writes that their files are due.
			a.allow("Ledger", state, at.ledger+"*", "s3:GetObject", "s3:PutObject")
			a.allow("RunRecords", state, at.runs+"*", "s3:GetObject", "s3:PutObject", "s3:AbortMultipartUpload") // a manifest goes in parts
			a.list(source.Bucket, source.Prefix)
			a.list(destination.Bucket, destination.Prefix) // for outputs of an older layout
		case "process":
			a.allow("ReadSource", source.Bucket, source.Prefix+"*", "s3:GetObject")
			a.seeMissing(source.Bucket, source.Prefix)
			// An output is replaced once its metadata is read, and never deleted.
			a.allow("Outputs", destination.Bucket, destination.Prefix+"*", "s3:GetObject", "s3:PutObject")
			a.seeMissing(destination.Bucket, destination.Prefix)
			a.allow("RunRecords", state, at.results, "s3:GetObject", "s3:PutObject")
			a.allow("RunRecords", state, at.progress, "s3:GetObject", "s3:PutObject")
		case "commit":
			a.allow("RunRecords", state, at.runs+"*", "s3:GetObject", "s3:PutObject")
			a.allow("Ledger", state, at.ledger+"*", "s3:GetObject", "s3:PutObject")
			a.allow("ClearSegments", state, at.ledger+"segments/*", "s3:DeleteObject")
		}
	}
	return append(a.all(), b.keyAccess(function == "process")...)
}

// statements gathers grants of the same kind, so that a policy grows by a
// resource and not by a statement with each pipeline.
type statements struct {
	b       *builder
	order   []string // Sids of objects
	objects map[string]*objects
	lists   []*listing
}

type objects struct{ actions, resources []string }

// listing is the right to list folders of a bucket.
type listing struct {
	bucket   string
	missing  bool // only to be told that an object is missing
	prefixes []string
}

func (s *statements) allow(sid, bucket, key string, actions ...string) {
	o, known := s.objects[sid]
	if !known {
		o = &objects{actions: actions}
		s.objects[sid] = o
		s.order = append(s.order, sid)
	}
	o.resources = append(o.resources, s.b.objects(bucket, key))
}

// list allows to list a folder.
func (s *statements) list(bucket, prefix string) { s.addListing(bucket, prefix, false) }

// seeMissing lets S3 answer 404 for an object that is not there: without the
// right to list it says 403, and a lock that was never taken would look like
// one that is out of reach. A GET has no prefix, so the condition must let
// requests without one pass.
// Source: S3 API reference, GetObject.
func (s *statements) seeMissing(bucket, prefix string) { s.addListing(bucket, prefix, true) }

// addListing collects prefixes by bucket. An empty prefix is the whole bucket:
// requests for it name no prefix, which a condition on one would refuse.
func (s *statements) addListing(bucket, prefix string, missing bool) {
	for _, l := range s.lists {
		if l.bucket == bucket && l.missing == missing {
			l.prefixes = append(l.prefixes, prefix+"*")
			return
		}
	}
	s.lists = append(s.lists, &listing{bucket, missing, []string{prefix + "*"}})
}

func (s *statements) all() []awsiam.PolicyStatement {
	var all []awsiam.PolicyStatement
	for _, sid := range s.order {
		o := s.objects[sid]
		all = append(all, allow(sid, o.actions, unique(o.resources), nil))
	}
	for _, l := range s.lists {
		operator, prefixes := "StringLike", unique(l.prefixes)
		if l.missing {
			operator = "StringLikeIfExists"
		}
		var conditions map[string]any
		if !slices.Contains(prefixes, "*") {
			conditions = map[string]any{operator: map[string]any{"s3:prefix": prefixes}}
		}
		all = append(all, allow("", []string{"s3:ListBucket"}, []string{s.b.bucketARN(l.bucket)}, conditions))
	}
	return all
}

func unique(list []string) []string {
	list = slices.Clone(list)
	slices.Sort(list)
	return slices.Compact(list)
}

// keyAccess is what reading and writing encrypted objects needs.
func (b *builder) keyAccess(readsSource bool) []awsiam.PolicyStatement {
	var all []awsiam.PolicyStatement
	if b.key != nil {
		all = append(all, allow("Key", []string{"kms:Decrypt", "kms:GenerateDataKey"}, []string{*b.key.KeyArn()}, nil))
	}
	if keys := b.settings.Encryption.ReadKeys; readsSource && len(keys) > 0 {
		all = append(all, allow("SourceKeys", []string{"kms:Decrypt"}, keys, nil))
	}
	return all
}

func allow(sid string, actions, resources []string, conditions map[string]any) awsiam.PolicyStatement {
	props := &awsiam.PolicyStatementProps{Actions: jsii.Strings(actions...), Resources: jsii.Strings(resources...)}
	if sid != "" {
		props.Sid = &sid
	}
	if conditions != nil {
		props.Conditions = &conditions
	}
	return awsiam.NewPolicyStatement(props)
}
