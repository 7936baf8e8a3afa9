package asl

import (
	"encoding/base64"
	"strconv"
	"time"

	"github.com/lockstep-pipeline/lockstep/internal/asl/payload"
)

// invokeTask is a task of the lambda:invoke integration: its result is an envelope around the reply.
type invokeTask struct {
	parameters string
	region     string
	tail       bool // LogType Tail
	to         Call
	rnd        *random
	now        func() time.Time
}

var invokeResource = TaskResource{ResourceType: "lambda", Resource: "invoke"}

func (t invokeTask) call() Call { return t.to }

func (t invokeTask) scheduled(seconds *int64) (EventType, any) {
	return TaskScheduled, TaskScheduledDetails{
		TaskResource: invokeResource, Region: t.region, Parameters: t.parameters, TimeoutInSeconds: seconds,
	}
}

func (invokeTask) started() (EventType, any) { return TaskStarted, invokeResource }

// result is the envelope that the integration puts around a reply. Only Payload, ExecutedVersion and StatusCode should
// be read from it; the headers are those of an HTTP exchange that did not happen.
func (t invokeTask) result(reply any, inv Invocation) (any, string) {
	version := t.to.Qualifier
	if version == "" {
		version = latest
	}
	id := t.rnd.uuid()
	one, every := map[string]any{}, map[string]any{}
	for name, value := range map[string]string{
		"Connection":                     "keep-alive",
		"Content-Length":                 strconv.Itoa(len(inv.Payload)),
		"Content-Type":                   "application/json",
		"Date":                           t.now().UTC().Format("Mon, 02 Jan 2006 15:04:05 GMT"),
		"X-Amz-Executed-Version":         version,
		"x-amzn-Remapped-Content-Length": "0",
		"x-amzn-RequestId":               id,
	} {
		one[name], every[name] = value, []any{value}
	}
	envelope := map[string]any{
		"ExecutedVersion": version,
		"Payload":         reply,
		"SdkHttpMetadata": map[string]any{
			"AllHttpHeaders": every, "HttpHeaders": one, "HttpStatusCode": payload.Integer(200),
		},
		"SdkResponseMetadata": map[string]any{"RequestId": id},
		"StatusCode":          payload.Integer(200),
	}
	if t.tail {
		envelope["LogResult"] = base64.StdEncoding.EncodeToString(inv.Log)
	}
	return envelope, "lambda"
}

func (invokeTask) succeeded(output string) (EventType, any) {
	return TaskSucceeded, TaskSucceededDetails{TaskResource: invokeResource, OutputDetails: OutputDetails{Output: output}}
}

func (invokeTask) ended(f *failure) (EventType, any) {
	details := TaskFailedDetails{TaskResource: invokeResource, FailureDetails: f.FailureDetails}
	if f.name() == errorTimeout {
		return TaskTimedOut, details
	}
	return TaskFailed, details
}
