package functions

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strconv"

	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/lockstep-pipeline/lockstep/internal/step"
	"github.com/lockstep-pipeline/lockstep/pkg/bucket"
	"github.com/lockstep-pipeline/lockstep/pkg/process"
)

// The functions' settings, beside those of the AWS SDK. All are optional.
const (
	envPathStyle     = "LOCKSTEP_S3_PATH_STYLE"     // "true": endpoint/bucket/key, for S3-compatible servers
	envEncryption    = "LOCKSTEP_S3_ENCRYPTION"     // "AES256", "aws:kms" or "aws:kms:dsse"
	envKMSKeyID      = "LOCKSTEP_S3_KMS_KEY_ID"     // key for every write
	envExpectedOwner = "LOCKSTEP_S3_EXPECTED_OWNER" // account id that must own the buckets
	envChecksum      = "LOCKSTEP_S3_CHECKSUM"       // algorithm sent with every write
	envRequesterPays = "LOCKSTEP_S3_REQUESTER_PAYS" // "true"
	envProbe         = "LOCKSTEP_PROBE"             // "true": acquire tries the endpoint before its first lock
	envNoMetrics     = "LOCKSTEP_NO_METRICS"        // "true": no lines that CloudWatch makes metrics of
)

// newSteps builds the clients that the environment describes. The prober is
// nil unless the environment asks for one.
func newSteps(ctx context.Context, log *slog.Logger, measure func(step.Measurement)) (*step.Steps, *prober, error) {
	pathStyle, err := truth(envPathStyle)
	if err != nil {
		return nil, nil, err
	}
	requesterPays, err := truth(envRequesterPays)
	if err != nil {
		return nil, nil, err
	}
	probe, err := truth(envProbe)
	if err != nil {
		return nil, nil, err
	}
	unmeasured, err := truth(envNoMetrics)
	if err != nil {
		return nil, nil, err
	}
	if unmeasured {
		measure = nil
	}
	options := bucket.Options{
		Encryption:    os.Getenv(envEncryption),
		KMSKeyID:      os.Getenv(envKMSKeyID),
		ExpectedOwner: os.Getenv(envExpectedOwner),
		Checksum:      os.Getenv(envChecksum),
		RequesterPays: requesterPays,
	}
	aws, err := config.LoadDefaultConfig(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("load AWS configuration: %w", err)
	}
	objects := s3.NewFromConfig(aws, func(o *s3.Options) { o.UsePathStyle = pathStyle })
	// A wrong option is told now, by its variable, and not with the first bucket.
	if _, err := bucket.New(objects, "any", options); err != nil {
		return nil, nil, fmt.Errorf("environment variables %s, %s and %s: %w", envEncryption, envKMSKeyID, envChecksum, err)
	}
	open := func(name string) (step.Store, error) { return bucket.New(objects, name, options) }
	processor, err := process.NewParquet(process.Config{})
	if err != nil {
		return nil, nil, err
	}
	steps, err := step.New(step.Config{
		Open:      open,
		Processor: processor,
		Log:       log,
		Measure:   measure,
	})
	if err != nil || !probe {
		return steps, nil, err
	}
	return steps, &prober{open: open, log: log}, nil
}

func truth(name string) (bool, error) {
	text, set := os.LookupEnv(name)
	if !set || text == "" {
		return false, nil
	}
	value, err := strconv.ParseBool(text)
	if err != nil {
		return false, errors.New("environment variable " + name + ": " + strconv.Quote(text) + " is neither true nor false")
	}
	return value, nil
}
