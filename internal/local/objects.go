package local

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go"

	"github.com/lockstep-pipeline/lockstep/internal/asl"
)

// objects is the stack's S3 as ItemReader and ResultWriter see it.
type objects struct {
	client *s3.Client
}

// Get implements asl.Objects.
func (o objects) Get(ctx context.Context, bucket, key string) ([]byte, error) {
	out, err := o.client.GetObject(ctx, &s3.GetObjectInput{Bucket: &bucket, Key: &key})
	if err != nil {
		return nil, objectError("read", bucket, key, err)
	}
	defer out.Body.Close()
	content, err := io.ReadAll(out.Body)
	if err != nil {
		return nil, objectError("read", bucket, key, err)
	}
	return content, nil
}

// Put implements asl.Objects.
func (o objects) Put(ctx context.Context, bucket, key string, body []byte) error {
	_, err := o.client.PutObject(ctx, &s3.PutObjectInput{
		Bucket:      &bucket,
		Key:         &key,
		Body:        bytes.NewReader(body),
		ContentType: aws.String("application/json"),
	})
	if err != nil {
		return objectError("write", bucket, key, err)
	}
	return nil
}

// objectError names the object, and tells a missing one as asl wants it told.
func objectError(op, bucket, key string, err error) error {
	var api smithy.APIError
	if errors.As(err, &api) && (api.ErrorCode() == "NoSuchKey" || api.ErrorCode() == "NoSuchBucket") {
		return fmt.Errorf("%s s3://%s/%s: %w: %w", op, bucket, key, asl.ErrNoObject, err)
	}
	return fmt.Errorf("%s s3://%s/%s: %w", op, bucket, key, err)
}
