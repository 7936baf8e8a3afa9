package local

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/lambda/types"
	"github.com/aws/smithy-go/logging"
	"github.com/sivchari/kumo"
)

// The credentials of everything local. They open nothing.
const (
	accessKeyID     = "LOCKSTEPLOCAL"
	secretAccessKey = "lockstep-local"
)

var staticCredentials = credentials.NewStaticCredentialsProvider(accessKeyID, secretAccessKey, "")

// emulatorURL starts kumo at the first call. It lives as long as the process:
// kumo registers its services, and keeps their state, in package variables, so
// a second server would be the same emulator behind another port.
var emulatorURL = sync.OnceValue(func() *url.URL {
	parsed, err := url.Parse(kumo.NewServer().URL)
	if err != nil {
		panic(err) // httptest builds this URL from a listener's address
	}
	return parsed
})

// emulatedLambda is kumo's Lambda as far as it is used here: functions that
// are polled for, one for each process.
type emulatedLambda struct {
	client *lambda.Client
	http   *http.Client
	base   string
}

func newEmulatedLambda(base *url.URL, transport *http.Transport) *emulatedLambda {
	httpClient := &http.Client{Transport: transport}
	return &emulatedLambda{
		client: lambda.New(lambda.Options{
			BaseEndpoint: aws.String(base.String()),
			Region:       Region,
			Credentials:  staticCredentials,
			HTTPClient:   httpClient,
			Retryer:      aws.NopRetryer{},
			Logger:       logging.Nop{},
		}),
		http: httpClient,
		base: base.String(),
	}
}

// create registers a function that a process will poll for.
func (e *emulatedLambda) create(ctx context.Context, name string, timeout time.Duration) error {
	_, err := e.client.CreateFunction(ctx, &lambda.CreateFunctionInput{
		FunctionName: &name,
		Role:         aws.String("arn:aws:iam::" + Account + ":role/" + name),
		Runtime:      types.RuntimeProvidedal2023,
		Handler:      aws.String("bootstrap"),
		Code:         &types.FunctionCode{ZipFile: []byte{}},
		Timeout:      aws.Int32(int32(timeout / time.Second)),
	})
	if err != nil {
		return fmt.Errorf("register %s with the emulator: %w", name, err)
	}
	// kumo refuses to invoke a function that nobody has polled for yet, and an
	// invocation may arrive a moment before the process's poll. Any call to the
	// function's Runtime API makes it known; an answer to a request that does not
	// exist is one that has no other effect.
	primer := e.base + "/_runtime/" + name + "/2018-06-01/runtime/invocation/none/response"
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, primer, http.NoBody)
	if err != nil {
		return fmt.Errorf("register %s with the emulator: %w", name, err)
	}
	resp, err := e.http.Do(req)
	if err != nil {
		return fmt.Errorf("register %s with the emulator: %w", name, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusAccepted {
		return fmt.Errorf("register %s with the emulator: it answered %s", name, resp.Status)
	}
	return nil
}

// reply is what kumo's Invoke returned.
type reply struct {
	payload []byte
	failed  bool // the payload is an error body
	err     error
}

// invoke hands payload to whoever polls for the function and waits for the
// answer, or for the function's time to pass.
func (e *emulatedLambda) invoke(ctx context.Context, name string, payload []byte) reply {
	out, err := e.client.Invoke(ctx, &lambda.InvokeInput{FunctionName: &name, Payload: payload})
	if err != nil {
		return reply{err: fmt.Errorf("invoke %s: %w", name, err)}
	}
	return reply{payload: out.Payload, failed: out.FunctionError != nil}
}

// remove forgets a function whose process has ended.
func (e *emulatedLambda) remove(ctx context.Context, name string) error {
	_, err := e.client.DeleteFunction(ctx, &lambda.DeleteFunctionInput{FunctionName: &name})
	var missing *types.ResourceNotFoundException
	if err != nil && !errors.As(err, &missing) {
		return fmt.Errorf("remove %s from the emulator: %w", name, err)
	}
	return nil
}

// loopbackTransport returns a transport that never leaves this machine's own
// servers through a proxy and passes bodies on as they are.
func loopbackTransport() *http.Transport {
	return &http.Transport{
		DisableCompression:  true,
		MaxIdleConnsPerHost: 64,
	}
}

// functionARN is the ARN of a function in this stack.
func functionARN(name string) string {
	return strings.Join([]string{"arn:aws:lambda", Region, Account, "function", name}, ":")
}
