package scale

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/aws/aws-lambda-go/lambda"

	"github.com/lockstep-pipeline/lockstep/functions"
	"github.com/lockstep-pipeline/lockstep/internal/step"
	"github.com/lockstep-pipeline/lockstep/pkg/bucket"
	"github.com/lockstep-pipeline/lockstep/pkg/process"
)

// functionVariable makes this test binary one of the functions.
const functionVariable = "LOCKSTEP_SCALE_FUNCTION"

// serveFunction serves the real function of that name, but for process: there
// the step is real, and the files, which have no content, are not asked for.
func serveFunction(name string) {
	if name != "process" {
		functions.Start(name)
		return
	}
	steps, err := step.New(step.Config{
		Open: func(name string) (step.Store, error) {
			b, err := open(os.Getenv("AWS_ENDPOINT_URL_S3"), name)
			return contentless{b}, err
		},
		Processor: nothing{},
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	lambda.Start(func(ctx context.Context, raw json.RawMessage) (step.ProcessOutput, error) {
		var in step.ProcessInput
		if err := json.Unmarshal(raw, &in); err != nil {
			return step.ProcessOutput{}, err
		}
		return steps.Process(ctx, in)
	})
}

// contentless has the objects of a bucket, and of the source all that are asked
// for, without a byte.
type contentless struct{ *bucket.Bucket }

func (c contentless) Get(ctx context.Context, key string, condition bucket.Condition) (*bucket.Object, error) {
	if !filesBucket.MatchString(c.Name()) {
		return c.Bucket.Get(ctx, key, condition)
	}
	return &bucket.Object{Body: io.NopCloser(bytes.NewReader(nil)), Key: key, ETag: condition.IfMatch}, nil
}

// nothing finds one row in each file without looking.
type nothing struct{}

func (nothing) Process(context.Context, process.File, process.Publisher) (process.Outcome, error) {
	return process.Outcome{Rows: 1}, nil
}
