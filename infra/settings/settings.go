// Package settings is what a deployment is told: the CDK context "lockstep",
// read strictly, with every default filled in and every value checked that can
// be checked before AWS sees it.
//
// It promises that settings which Parse accepts describe a stack that is
// consistent in itself: pipelines whose locks and ledgers cannot meet, run
// configurations that the functions accept, functions that end before the
// state machine gives up on them. It does not know CDK and asks no service, so
// whether buckets, keys and networks that are said to exist do exist is found
// out by the deployment.
package settings

import (
	"fmt"
	"strconv"

	"github.com/lockstep-pipeline/lockstep/internal/step"
)

// ContextKey is where CDK keeps the settings: "context" in cdk.json, or
// -c lockstep='{…}' on the command line.
const ContextKey = "lockstep"

// Settings describe one stack.
type Settings struct {
	// StackName begins the names of everything in the stack; default "lockstep".
	StackName string `json:"stackName"`
	// Architecture is "arm64" or "x86_64"; by default it is what dist/ was built
	// for. Giving it refuses binaries of the other kind.
	Architecture string `json:"architecture"`
	// Pipelines by name; at least one.
	Pipelines map[string]*Pipeline `json:"pipelines"`
	// CreateBuckets names the buckets that the stack makes. Others that a run
	// configuration names must exist; one that it leaves out is made under a
	// name that AWS chooses.
	CreateBuckets []string `json:"createBuckets"`
	// ExpectedBucketOwner is the account that must own all buckets; default:
	// this account where the stack makes all of them, otherwise unchecked.
	ExpectedBucketOwner string `json:"expectedBucketOwner"`
	// AccessLogBucket is an existing bucket that takes the access logs of the
	// buckets which the stack makes; default: none are kept.
	AccessLogBucket string `json:"accessLogBucket"`
	// RunRecordDays is how long manifests, results and summaries are kept in a
	// bucket that the stack makes; 1 to 3,650, default 90.
	RunRecordDays int `json:"runRecordDays"`

	Encryption Encryption `json:"encryption"`
	Functions  Functions  `json:"functions"`
	Logs       Logs       `json:"logs"`
	Alarms     Alarms     `json:"alarms"`
	VPC        VPC        `json:"vpc"`

	// Tracing sends X-Ray traces of functions and executions; default true.
	Tracing bool `json:"tracing"`
	// InlineDefinition puts the state machine's text into the template, instead
	// of an asset in S3; some emulators read only that. Default false.
	InlineDefinition bool `json:"inlineDefinition"`

	buckets []Bucket
}

// Encryption says which keys objects are encrypted with.
type Encryption struct {
	// Key encrypts what Lockstep writes: "" leaves it to each bucket, "new" makes
	// a key, an ARN names an existing one.
	Key string `json:"key"`
	// ReadKeys are the ARNs of the keys that existing sources are encrypted with.
	ReadKeys []string `json:"readKeys"`
}

// NewKey is the value of Encryption.Key that asks for a key of the stack's own.
const NewKey = "new"

// Functions hold the settings of the five functions.
type Functions struct {
	Acquire  Function `json:"acquire"`
	Discover Function `json:"discover"`
	Process  Function `json:"process"`
	Commit   Function `json:"commit"`
	Release  Function `json:"release"`
	// Environment is given to each of them, beside what the stack sets itself.
	Environment map[string]string `json:"environment"`
}

// probeVariable is one of functions/environment.go's.
const probeVariable = "LOCKSTEP_PROBE"

// Probing reports whether acquire tries the place of a lock before its first use.
func (f *Functions) Probing() bool {
	on, err := strconv.ParseBool(f.Environment[probeVariable])
	return err == nil && on
}

// Function sizes one function.
type Function struct {
	MemoryMB           int `json:"memoryMB"`           // 128 to 10,240; CPU grows with it
	EphemeralStorageMB int `json:"ephemeralStorageMB"` // /tmp; 512 to 10,240
	// TimeoutSeconds is at most ten seconds less than the state machine waits,
	// so that a call has ended before anybody gives up on it; that is the default.
	TimeoutSeconds int `json:"timeoutSeconds"`
	// ReservedConcurrency is set aside for this function, and is its limit;
	// 0 reserves nothing. An account must keep some unreserved.
	ReservedConcurrency int `json:"reservedConcurrency"`
}

// Each yields the functions by name, in the order of a run.
func (f *Functions) Each(yield func(name string, function *Function) bool) {
	for _, one := range []struct {
		name     string
		function *Function
	}{{"acquire", &f.Acquire}, {"discover", &f.Discover}, {"process", &f.Process}, {"commit", &f.Commit}, {"release", &f.Release}} {
		if !yield(one.name, one.function) {
			return
		}
	}
}

// Logs of functions and executions.
type Logs struct {
	RetentionDays int `json:"retentionDays"` // one of CloudWatch's terms; default 30
	// ExecutionData puts inputs and outputs of states, which name buckets and
	// keys, into the log; default false.
	ExecutionData bool `json:"executionData"`
}

// Alarms of the stack.
type Alarms struct {
	Enabled  bool   `json:"enabled"`  // default true; some emulators know no alarms
	Email    string `json:"email"`    // is asked to subscribe to the stack's topic
	TopicARN string `json:"topicArn"` // an existing topic, instead of one of the stack's own
}

// VPC puts the functions into subnets. They need a way to S3 and X-Ray from
// there.
type VPC struct {
	SubnetIDs        []string `json:"subnetIds"`
	SecurityGroupIDs []string `json:"securityGroupIds"`
}

// Used reports whether the functions run in a VPC.
func (v VPC) Used() bool { return len(v.SubnetIDs) > 0 }

// Error refuses a setting.
type Error struct {
	Field   string // its path, such as "pipelines.weather.schedule.timeZone"; "" for the whole
	Problem string // what is wrong and what to write instead
}

func (e *Error) Error() string {
	if e.Field == "" {
		return fmt.Sprintf("context %q %s", ContextKey, e.Problem)
	}
	return fmt.Sprintf("context %q: %s %s", ContextKey, e.Field, e.Problem)
}

func refuse(field, format string, args ...any) error {
	return &Error{Field: field, Problem: fmt.Sprintf(format, args...)}
}

func (s *Settings) setDefaults() {
	*s = Settings{
		StackName:     "lockstep",
		RunRecordDays: 90,
		Functions: Functions{
			Acquire:  Function{MemoryMB: 256, EphemeralStorageMB: 512},
			Discover: Function{MemoryMB: 1769, EphemeralStorageMB: 4096},
			// One file may be 4 GiB of text, and is on disk with its outputs.
			Process: Function{MemoryMB: 3008, EphemeralStorageMB: 10240},
			Commit:  Function{MemoryMB: 1769, EphemeralStorageMB: 4096},
			// Processing calls that use up the account must not keep a lock held.
			Release: Function{MemoryMB: 256, EphemeralStorageMB: 512, ReservedConcurrency: 5},
		},
		Logs:    Logs{RetentionDays: 30},
		Alarms:  Alarms{Enabled: true},
		Tracing: true,
	}
}

// A Pipeline is one source, one lock, one ledger and one state machine.
type Pipeline struct {
	Schedule Schedule       `json:"schedule"`
	Alarms   PipelineAlarms `json:"alarms"`
	// Run is the run configuration, as in events/schedule.json. The pipeline's
	// name and the trigger are filled in, and so are buckets that it leaves out.
	Run raw `json:"run"`

	// Config is what the functions will understand by Run, with the names of
	// Settings.Buckets.
	Config step.RunConfig `json:"-"`
	Name   string         `json:"-"`
}

// PipelineAlarms are a pipeline's thresholds.
type PipelineAlarms struct {
	// NoSuccessMinutes without a run that did its work raise an alarm. Default:
	// four intervals of the schedule; 0 means no such alarm. A cron schedule has
	// no interval, so it must be said there.
	NoSuccessMinutes *int `json:"noSuccessMinutes"`
	// LockHeldMinutes is the longest that a run should hold the lock; default 60,
	// 0 means no such alarm.
	LockHeldMinutes int `json:"lockHeldMinutes"`
}

func (p *Pipeline) setDefaults() {
	*p = Pipeline{
		Schedule: Schedule{Expression: "rate(15 minutes)", TimeZone: "UTC", Enabled: true},
		Alarms:   PipelineAlarms{LockHeldMinutes: 60},
	}
}
