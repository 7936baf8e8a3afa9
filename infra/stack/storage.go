package stack

import (
	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awskms"
	"github.com/aws/aws-cdk-go/awscdk/v2/awss3"
	"github.com/aws/jsii-runtime-go"

	"github.com/lockstep-pipeline/lockstep/infra/settings"
)

// addKey makes or finds the key that objects are encrypted with.
func (b *builder) addKey() {
	switch arn := b.settings.Encryption.Key; arn {
	case "":
	case settings.NewKey:
		key := awskms.NewKey(b.stack, jsii.String("Key"), &awskms.KeyProps{
			Description:       jsii.String("Encrypts what Lockstep writes to S3"),
			EnableKeyRotation: jsii.Bool(true),
			RemovalPolicy:     awscdk.RemovalPolicy_RETAIN,
		})
		fixID(key, "Key")
		b.key = key
	default:
		b.key = awskms.Key_FromKeyArn(b.stack, jsii.String("Key"), &arn)
	}
}

// addBuckets makes the buckets that do not exist and finds the others.
func (b *builder) addBuckets() {
	for _, bucket := range b.settings.Buckets() {
		if !bucket.Created {
			b.buckets[bucket.Name] = awss3.Bucket_FromBucketName(b.stack, jsii.String("Bucket-"+bucket.Name), &bucket.Name)
			continue
		}
		b.buckets[bucket.Name] = b.addBucket(bucket)
	}
	b.describeExisting()
}

func (b *builder) addBucket(bucket settings.Bucket) awss3.Bucket {
	id, name := "Bucket-"+bucket.Name, &bucket.Name
	if bucket.Role != "" {
		id, name = settings.ID(bucket.Role)+"Bucket", nil
	}
	props := &awss3.BucketProps{
		BucketName:        name,
		BlockPublicAccess: awss3.BlockPublicAccess_BLOCK_ALL(),
		ObjectOwnership:   awss3.ObjectOwnership_BUCKET_OWNER_ENFORCED,
		EnforceSSL:        jsii.Bool(true),
		MinimumTLSVersion: jsii.Number(1.2),
		Encryption:        awss3.BucketEncryption_S3_MANAGED,
		Versioned:         jsii.Bool(true),
		LifecycleRules:    b.lifecycle(bucket.Name),
		RemovalPolicy:     awscdk.RemovalPolicy_RETAIN,
	}
	if b.key != nil {
		props.Encryption, props.EncryptionKey, props.BucketKeyEnabled = awss3.BucketEncryption_KMS, b.key, jsii.Bool(true)
	}
	if log := b.settings.AccessLogBucket; log != "" {
		props.ServerAccessLogsBucket = awss3.Bucket_FromBucketName(b.stack, jsii.String("AccessLogs-"+id), &log)
		props.ServerAccessLogsPrefix = jsii.String(b.settings.StackName + "/" + id + "/")
	}
	made := awss3.NewBucket(b.stack, &id, props)
	if bucket.Role != "" {
		fixID(made, id)
		b.generated[bucket.Name] = made
	}
	for _, statement := range b.guards(bucket.Name) {
		made.AddToResourcePolicy(statement.cdk())
	}
	// A bucket that outlives its stack must not lose its guards with it.
	made.Policy().ApplyRemovalPolicy(awscdk.RemovalPolicy_RETAIN)
	b.excuseBucket(made)
	return made
}

// statePipelines are those whose state is in a bucket.
func (b *builder) statePipelines(bucket string) []*settings.Pipeline {
	var all []*settings.Pipeline
	for p := range b.eachPipeline {
		if p.Config.State.Bucket == bucket {
			all = append(all, p)
		}
	}
	return all
}

// Days that replaced and deleted versions are kept.
const (
	lockVersionDays   = 1  // a renewal is a version: thousands a day, of no use to anybody
	ledgerVersionDays = 7  // to look at what a commit or a merge changed
	dataVersionDays   = 30 // to get back what a mistake overwrote
)

// lifecycle keeps a bucket from growing by what nobody reads again. Rules of
// the state's folders and of the whole bucket overlap; the earlier term wins.
func (b *builder) lifecycle(bucket string) *[]*awss3.LifecycleRule {
	days := func(n int) awscdk.Duration { return awscdk.Duration_Days(jsii.Number(n)) }
	rules := []*awss3.LifecycleRule{{
		Id:                                  jsii.String("leftovers"),
		AbortIncompleteMultipartUploadAfter: days(2), // longer than an execution may run
		NoncurrentVersionExpiration:         days(dataVersionDays),
		ExpiredObjectDeleteMarker:           jsii.Bool(true),
	}}
	for _, p := range b.statePipelines(bucket) {
		at := b.keys(p)
		rules = append(rules,
			&awss3.LifecycleRule{Id: jsii.String(p.Name + "-lock"), Prefix: &at.lock, NoncurrentVersionExpiration: days(lockVersionDays)},
			&awss3.LifecycleRule{Id: jsii.String(p.Name + "-ledger"), Prefix: &at.ledgers, NoncurrentVersionExpiration: days(ledgerVersionDays)},
			&awss3.LifecycleRule{Id: jsii.String(p.Name + "-runs"), Prefix: &at.runs, Expiration: days(b.settings.RunRecordDays), NoncurrentVersionExpiration: days(lockVersionDays)},
		)
	}
	return &rules
}
