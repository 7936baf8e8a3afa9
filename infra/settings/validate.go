package settings

import (
	"encoding/json"
	"fmt"
	"net/mail"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Parse reads settings. Its only error is *Error, which names the field.
func Parse(text []byte) (*Settings, error) {
	machine, err := ReadMachine()
	if err != nil {
		return nil, err
	}
	s := new(Settings)
	if err := decode(text, s); err != nil {
		return nil, err
	}
	for _, check := range []func() error{
		s.checkNames,
		func() error { return s.checkFunctions(machine) },
		s.checkEnvironment,
		s.checkReferences,
		s.checkNumbers,
		s.checkPipelines,
		s.collectBuckets,
		s.checkPlaces,
	} {
		if err := check(); err != nil {
			return nil, err
		}
	}
	return s, nil
}

var (
	stackName    = regexp.MustCompile(`^[a-z][a-z0-9]*(-[a-z0-9]+)*$`)
	variableName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_]*$`)
)

// maxNameBytes lets <stack>-<pipeline> name a schedule (64 characters).
// Source: EventBridge Scheduler API reference, CreateSchedule.
const maxNameBytes = 31

func (s *Settings) checkNames() error {
	if !stackName.MatchString(s.StackName) || len(s.StackName) > maxNameBytes {
		return refuse("stackName", "is %q; use at most %d lower-case letters, digits and single hyphens, and begin with a letter", s.StackName, maxNameBytes)
	}
	if s.Architecture != "" && s.Architecture != "arm64" && s.Architecture != "x86_64" {
		return refuse("architecture", "is %q; use \"arm64\" or \"x86_64\", or leave it out", s.Architecture)
	}
	if len(s.Pipelines) == 0 {
		return refuse("pipelines", "is empty; name at least one pipeline")
	}
	ids := map[string]string{}
	for _, name := range s.PipelineNames() {
		if !stackName.MatchString(name) || len(name) > maxNameBytes {
			return refuse("pipelines."+name, "is no name for a pipeline; use at most %d lower-case letters, digits and single hyphens, and begin with a letter", maxNameBytes)
		}
		if other, taken := ids[ID(name)]; taken {
			return refuse("pipelines."+name, "and %q would have the same outputs, %s…; rename one of them", other, ID(name))
		}
		ids[ID(name)] = name
	}
	return nil
}

// ID turns a pipeline's name into the beginning of its outputs' names:
// "daily-weather" into "DailyWeather".
func ID(name string) string {
	var id strings.Builder
	for part := range strings.SplitSeq(name, "-") {
		id.WriteString(strings.ToUpper(part[:1]) + part[1:])
	}
	return id.String()
}

// callMargin is how much sooner a call must end than the state machine gives
// up on it. Otherwise the next attempt would begin while the last is at work.
const callMargin = 10

func (s *Settings) checkFunctions(machine Machine) error {
	for name, f := range s.Functions.Each {
		path := "functions." + name
		most := min(machine.TaskSeconds[name]-callMargin, 900)
		if f.TimeoutSeconds == 0 {
			f.TimeoutSeconds = most
		}
		if f.TimeoutSeconds < 1 || f.TimeoutSeconds > most {
			return refuse(path+".timeoutSeconds", "is %d; it must be from 1 to %d, since the state machine waits %d seconds for this function", f.TimeoutSeconds, most, machine.TaskSeconds[name])
		}
		for _, n := range []struct {
			field            string
			value, low, high int
		}{
			{"memoryMB", f.MemoryMB, 128, 10240},
			{"ephemeralStorageMB", f.EphemeralStorageMB, 512, 10240},
			{"reservedConcurrency", f.ReservedConcurrency, 0, 10000},
		} {
			if n.value < n.low || n.value > n.high {
				return refuse(path+"."+n.field, "is %d; it must be from %d to %d", n.value, n.low, n.high)
			}
		}
	}
	return nil
}

// ownVariables are set by the stack.
var ownVariables = []string{"LOCKSTEP_S3_ENCRYPTION", "LOCKSTEP_S3_KMS_KEY_ID", "LOCKSTEP_S3_EXPECTED_OWNER"}

func (s *Settings) checkEnvironment() error {
	for name, value := range s.Functions.Environment {
		path := "functions.environment." + name
		if !variableName.MatchString(name) {
			return refuse(path, "is no name of an environment variable")
		}
		if slices.Contains(ownVariables, name) {
			return refuse(path, "is set by the stack; use encryption.key or expectedBucketOwner")
		}
		// It decides over acquire's rights, so both must understand it alike.
		if _, err := strconv.ParseBool(value); name == probeVariable && value != "" && err != nil {
			return refuse(path, "is %q; it must be \"true\" or \"false\"", value)
		}
	}
	return nil
}

var (
	accountID     = regexp.MustCompile(`^[0-9]{12}$`)
	keyARN        = regexp.MustCompile(`^arn:aws[a-z-]*:kms:[a-z0-9-]+:[0-9]{12}:key/[A-Za-z0-9-]+$`)
	topicARN      = regexp.MustCompile(`^arn:aws[a-z-]*:sns:[a-z0-9-]+:[0-9]{12}:[A-Za-z0-9_-]+$`)
	subnetID      = regexp.MustCompile(`^subnet-[0-9a-f]+$`)
	securityGroup = regexp.MustCompile(`^sg-[0-9a-f]+$`)
)

// checkReferences looks at the form of what must exist already.
func (s *Settings) checkReferences() error {
	type reference struct {
		field, value string
		form         *regexp.Regexp
		example      string
	}
	references := []reference{
		{"expectedBucketOwner", s.ExpectedBucketOwner, accountID, "123456789012"},
		{"accessLogBucket", s.AccessLogBucket, bucketName, "acme-access-logs"},
		{"alarms.topicArn", s.Alarms.TopicARN, topicARN, "arn:aws:sns:eu-central-1:123456789012:alarms"},
	}
	const anyKey = "arn:aws:kms:eu-central-1:123456789012:key/1234abcd-12ab-34cd-56ef-1234567890ab"
	if s.Encryption.Key != NewKey {
		references = append(references, reference{"encryption.key", s.Encryption.Key, keyARN, `new", or ` + "\"" + anyKey})
	}
	for i, key := range s.Encryption.ReadKeys {
		references = append(references, reference{fmt.Sprintf("encryption.readKeys[%d]", i), or(key, "(empty)"), keyARN, anyKey})
	}
	for i, id := range s.VPC.SubnetIDs {
		references = append(references, reference{fmt.Sprintf("vpc.subnetIds[%d]", i), or(id, "(empty)"), subnetID, "subnet-0123456789abcdef0"})
	}
	for i, id := range s.VPC.SecurityGroupIDs {
		references = append(references, reference{fmt.Sprintf("vpc.securityGroupIds[%d]", i), or(id, "(empty)"), securityGroup, "sg-0123456789abcdef0"})
	}
	for _, r := range references {
		if r.value != "" && !r.form.MatchString(r.value) {
			return refuse(r.field, "is %q; it must look like \"%s\"", r.value, r.example)
		}
	}
	if (len(s.VPC.SubnetIDs) == 0) != (len(s.VPC.SecurityGroupIDs) == 0) {
		return refuse("vpc", "needs both subnetIds and securityGroupIds, or neither")
	}
	return s.checkAlarms()
}

func (s *Settings) checkAlarms() error {
	if s.Alarms.Email == "" {
		return nil
	}
	if address, err := mail.ParseAddress(s.Alarms.Email); err != nil || address.Address != s.Alarms.Email {
		return refuse("alarms.email", "is %q; give one address, such as \"oncall@example.com\"", s.Alarms.Email)
	}
	if s.Alarms.TopicARN != "" {
		return refuse("alarms.email", "goes with the stack's own topic; subscribe the address to alarms.topicArn yourself, or leave that out")
	}
	if !s.Alarms.Enabled {
		return refuse("alarms.email", "would never be written to, since alarms.enabled is false; leave one of them out")
	}
	return nil
}

// retentionDays are the terms that CloudWatch Logs offers.
// Source: CloudWatch Logs API reference, PutRetentionPolicy.
var retentionDays = []int{1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827, 2192, 2557, 2922, 3288, 3653}

func (s *Settings) checkNumbers() error {
	if s.RunRecordDays < 1 || s.RunRecordDays > 3650 {
		return refuse("runRecordDays", "is %d; it must be from 1 to 3650", s.RunRecordDays)
	}
	if !slices.Contains(retentionDays, s.Logs.RetentionDays) {
		return refuse("logs.retentionDays", "is %d; CloudWatch Logs offers %s", s.Logs.RetentionDays, strings.Trim(fmt.Sprint(retentionDays), "[]"))
	}
	return nil
}

// maxAlarmMinutes is what CloudWatch looks back at most, seven days.
// Source: CloudWatch API reference, PutMetricAlarm.
const maxAlarmMinutes = 7 * 24 * 60

func (s *Settings) checkPipelines() error {
	for _, name := range s.PipelineNames() {
		p, path := s.Pipelines[name], "pipelines."+name
		p.Name = name
		if err := p.Schedule.validate(path + ".schedule"); err != nil {
			return err
		}
		if err := p.readRun(path + ".run"); err != nil {
			return err
		}
		alarm := path + ".alarms.noSuccessMinutes"
		switch minutes := p.NoSuccessMinutes(); {
		case p.Alarms.NoSuccessMinutes == nil && p.Schedule.Enabled && p.Schedule.Interval() == 0:
			return refuse(alarm, "is missing; a cron expression does not tell how often runs should succeed. Say after how many minutes without one an alarm is due, or 0 for none")
		case minutes < 0 || minutes > maxAlarmMinutes:
			return refuse(alarm, "is %d; it must be from 1 to %d (seven days, as far as CloudWatch looks back), or 0 for none", minutes, maxAlarmMinutes)
		}
		if m := p.Alarms.LockHeldMinutes; m < 0 || m > maxAlarmMinutes {
			return refuse(path+".alarms.lockHeldMinutes", "is %d; it must be from 1 to %d, or 0 for none", m, maxAlarmMinutes)
		}
	}
	return nil
}

// Warnings tells of settings that are allowed and may surprise with that state
// machine.
func (s *Settings) Warnings(machine Machine) []string {
	var warnings []string
	concurrency := 0
	for _, name := range s.PipelineNames() {
		config := s.Pipelines[name].Config
		concurrency += config.Batch.MaxConcurrency
		if ttl := config.Lock.TTLSeconds; machine.LongestPauseSeconds > longestPause(ttl) {
			warnings = append(warnings, fmt.Sprintf("pipelines.%s.run.lock.ttlSeconds is %d: a step that is throttled is tried again for up to %d seconds, and until then nothing renews the lease, so the run may lose its lock; use %d or more",
				name, ttl, machine.LongestPauseSeconds, (machine.LongestPauseSeconds*3+1)/2))
		}
	}
	if limit := s.Functions.Process.ReservedConcurrency; limit > 0 && limit < concurrency {
		warnings = append(warnings, fmt.Sprintf("functions.process.reservedConcurrency is %d, and batch.maxConcurrency of all pipelines comes to %d: the calls beyond it are throttled and tried again", limit, concurrency))
	}
	return warnings
}

// longestPause is how long a run surely keeps a lease that nothing renews. The
// last call may have left it a third of its time old: steps renew it then.
func longestPause(ttlSeconds int) int { return ttlSeconds * 2 / 3 }

// text is a JSON string's value.
func text(value raw) (string, bool) {
	var s string
	err := json.Unmarshal(value, &s)
	return s, err == nil
}
