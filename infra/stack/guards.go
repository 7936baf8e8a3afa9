package stack

import (
	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/jsii-runtime-go"
)

// A guard is a statement of a bucket's policy that denies something to
// everybody. Its JSON is what IAM reads.
type guard struct {
	Sid       string                    `json:"Sid"`
	Effect    string                    `json:"Effect"`
	Principal string                    `json:"Principal"`
	Action    []string                  `json:"Action"`
	Resource  []string                  `json:"Resource"`
	Condition map[string]map[string]any `json:"Condition,omitempty"`
}

// guards protect what a bucket holds of locks and ledgers, from mistakes too:
// an administrator who copies an old lock back would start the fencing tokens
// anew. Whoever must do it takes the statement away first.
func (b *builder) guards(bucket string) []guard {
	var resources []string
	for _, p := range b.statePipelines(bucket) {
		at := b.keys(p)
		// The wildcard is for ledgers of other sources, which a run by hand may have.
		resources = append(resources, b.objects(bucket, at.lock), b.objects(bucket, at.ledgers+"*/head.json"))
	}
	if len(resources) == 0 {
		return nil
	}
	return []guard{
		{
			// Both keys absent: the request has no condition. Copies and uploads in
			// parts have none either; nothing of ours writes these objects so.
			// Source: S3 user guide, "Enforce conditional writes".
			Sid: "OnlyConditionalWritesOfLockAndHead", Effect: "Deny", Principal: "*",
			Action: []string{"s3:PutObject"}, Resource: resources,
			Condition: map[string]map[string]any{"Null": {"s3:if-match": "true", "s3:if-none-match": "true"}},
		},
		{
			// Without its object a lock forgets the tokens it gave out. Deleting the
			// current version would bring the one before back.
			Sid: "NoDeletionOfLockAndHead", Effect: "Deny", Principal: "*",
			Action: []string{"s3:DeleteObject", "s3:DeleteObjectVersion"}, Resource: resources,
		},
	}
}

// onlyTLS is what CDK adds to the buckets that it makes.
func (b *builder) onlyTLS(bucket string) guard {
	return guard{
		Sid: "OnlyTLS", Effect: "Deny", Principal: "*",
		Action: []string{"s3:*"}, Resource: []string{b.bucketARN(bucket), b.objects(bucket, "*")},
		Condition: map[string]map[string]any{"Bool": {"aws:SecureTransport": "false"}},
	}
}

func (g guard) cdk() awsiam.PolicyStatement {
	conditions := map[string]any{}
	for operator, keys := range g.Condition {
		conditions[operator] = keys
	}
	return awsiam.NewPolicyStatement(&awsiam.PolicyStatementProps{
		Sid:        &g.Sid,
		Effect:     awsiam.Effect_DENY,
		Principals: &[]awsiam.IPrincipal{awsiam.NewAnyPrincipal()},
		Actions:    jsii.Strings(g.Action...),
		Resources:  jsii.Strings(g.Resource...),
		Conditions: &conditions,
	})
}

// describeExisting leaves with the template what an existing bucket needs: the
// stack does not own its policy, and would replace it.
func (b *builder) describeExisting() {
	policies := map[string]any{}
	for _, bucket := range b.settings.Buckets() {
		if !bucket.Created && len(b.statePipelines(bucket.Name)) > 0 {
			awscdk.Annotations_Of(b.stack).AddInfo(jsii.String("Bucket " + bucket.Name + " is not this stack's. Add to its policy what the template has in Metadata.LockstepBucketPolicies, so that nobody writes a lock without a condition."))
		}
		if !bucket.Created {
			policies[bucket.Name] = map[string]any{
				"Version":   "2012-10-17",
				"Statement": append([]guard{b.onlyTLS(bucket.Name)}, b.guards(bucket.Name)...),
			}
		}
	}
	if len(policies) > 0 {
		b.stack.AddMetadata(jsii.String("LockstepBucketPolicies"), policies)
	}
}

// bucketARN and objects name a bucket and what lies in it, without asking CDK
// for the bucket: it may be the one whose policy this is.
func (b *builder) bucketARN(bucket string) string {
	return "arn:" + *awscdk.Aws_PARTITION() + ":s3:::" + b.bucketName(bucket)
}

func (b *builder) objects(bucket, key string) string { return b.bucketARN(bucket) + "/" + key }
