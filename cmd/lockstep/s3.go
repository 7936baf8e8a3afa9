package main

import (
	"context"
	"fmt"
	"net/url"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/lockstep-pipeline/lockstep/pkg/bucket"
)

// s3Flags say how a command talks to S3: the same choices that the functions
// take from the environment, under the same names.
type s3Flags struct {
	EndpointURL   string `group:"S3" name:"endpoint-url" placeholder:"URL" help:"An S3-compatible server instead of AWS; else AWS_ENDPOINT_URL_S3 or the profile's."`
	PathStyle     bool   `group:"S3" env:"LOCKSTEP_S3_PATH_STYLE" help:"Name the bucket in the path instead of the host, as most S3-compatible servers want it."`
	Region        string `group:"S3" placeholder:"NAME" help:"The bucket's region; else AWS_REGION or the profile's."`
	Profile       string `group:"S3" placeholder:"NAME" help:"Profile of the AWS configuration files; else AWS_PROFILE."`
	Encryption    string `group:"S3" env:"LOCKSTEP_S3_ENCRYPTION" placeholder:"NAME" help:"Server-side encryption of every write: AES256, aws:kms or aws:kms:dsse."`
	KMSKeyID      string `group:"S3" name:"kms-key-id" env:"LOCKSTEP_S3_KMS_KEY_ID" placeholder:"KEY" help:"KMS key of every write: an id, an alias or an ARN."`
	ExpectedOwner string `group:"S3" name:"expected-bucket-owner" env:"LOCKSTEP_S3_EXPECTED_OWNER" placeholder:"ACCOUNT" help:"Account that must own the bucket; S3 refuses each request if another does."`
	Checksum      string `group:"S3" env:"LOCKSTEP_S3_CHECKSUM" placeholder:"NAME" help:"Checksum of every write: CRC32, CRC32C, CRC64NVME, SHA1, SHA256 or SHA512."`
	RequesterPays bool   `group:"S3" env:"LOCKSTEP_S3_REQUESTER_PAYS" help:"Accept the charges of a requester-pays bucket."`
}

// loadAWS reads the AWS configuration. What is not given comes from the
// environment and the configuration files.
func loadAWS(ctx context.Context, profile, region string) (aws.Config, error) {
	var options []func(*config.LoadOptions) error
	if profile != "" {
		options = append(options, config.WithSharedConfigProfile(profile))
	}
	if region != "" {
		options = append(options, config.WithRegion(region))
	}
	settings, err := config.LoadDefaultConfig(ctx, options...)
	if err != nil {
		return aws.Config{}, fmt.Errorf("load AWS configuration: %w", err)
	}
	return settings, nil
}

// place is where a service is: at a URL, if one is given, else where the
// configuration says.
func place(at string, endpoint **string, region *string) {
	if at != "" {
		*endpoint = &at
	}
	// A server of one's own has no regions, but requests are signed for one.
	if *endpoint != nil && *region == "" {
		*region = "us-east-1"
	}
}

// isLocalhost tells of an endpoint before whose name no bucket's can stand: not
// every resolver knows a bucket.localhost. Of IP addresses the SDK knows it.
func isLocalhost(endpoint string) bool {
	u, err := url.Parse(endpoint)
	return err == nil && u.Hostname() == "localhost"
}

func regionKnown(service, region string) error {
	if region == "" {
		return fmt.Errorf("no region is known for %s: give --region or set AWS_REGION", service)
	}
	return nil
}

// open returns the bucket called name. It does not dial; credentials are
// looked for when the first request needs them.
func (f s3Flags) open(ctx context.Context, name string) (*bucket.Bucket, error) {
	settings, err := loadAWS(ctx, f.Profile, f.Region)
	if err != nil {
		return nil, err
	}
	client := s3.NewFromConfig(settings, func(o *s3.Options) {
		place(f.EndpointURL, &o.BaseEndpoint, &o.Region)
		o.UsePathStyle = f.PathStyle || o.BaseEndpoint != nil && isLocalhost(*o.BaseEndpoint)
	})
	if err := regionKnown("S3", client.Options().Region); err != nil {
		return nil, err
	}
	return bucket.New(client, name, bucket.Options{
		Encryption:    f.Encryption,
		KMSKeyID:      f.KMSKeyID,
		ExpectedOwner: f.ExpectedOwner,
		Checksum:      f.Checksum,
		RequesterPays: f.RequesterPays,
	})
}
