package stack_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
)

const (
	state  = "arn:${AWS::Partition}:s3:::${StateBucket}"
	source = "arn:${AWS::Partition}:s3:::${SourceBucket}"
	lake   = "arn:${AWS::Partition}:s3:::${DestinationBucket}"
	ledger = state + "/weather/ledger/${SourceBucket}/"
	states = "arn:${AWS::Partition}:states:${AWS::Region}:${AWS::AccountId}:"
)

// What each function may do, in full. Whoever changes this list changes what a
// stolen function could do.
var functionGrants = map[string][]string{
	"Acquire": {
		"s3:GetObject s3:PutObject on " + state + "/weather/lock.json",
		"s3:ListBucket on " + state + " if map[StringLikeIfExists:map[s3:prefix:[weather/*]]]",
	},
	"Discover": {
		"s3:GetObject s3:PutObject on " + state + "/weather/lock.json",
		"s3:ListBucket on " + state + " if map[StringLikeIfExists:map[s3:prefix:[weather/*]]]",
		"s3:GetObject s3:PutObject on " + ledger + "*",
		"s3:AbortMultipartUpload s3:GetObject s3:PutObject on " + state + "/weather/runs/*",
		"s3:ListBucket on " + source + " if map[StringLike:map[s3:prefix:[incoming/*]]]",
		"s3:ListBucket on " + lake + " if map[StringLike:map[s3:prefix:[parquet/*]]]",
	},
	"Process": {
		"s3:GetObject s3:PutObject on " + state + "/weather/lock.json",
		"s3:ListBucket on " + state + " if map[StringLikeIfExists:map[s3:prefix:[weather/*]]]",
		"s3:GetObject on " + source + "/incoming/*",
		"s3:ListBucket on " + source + " if map[StringLikeIfExists:map[s3:prefix:[incoming/*]]]",
		"s3:GetObject s3:PutObject on " + lake + "/parquet/*",
		"s3:ListBucket on " + lake + " if map[StringLikeIfExists:map[s3:prefix:[parquet/*]]]",
		"s3:GetObject s3:PutObject on " + state + "/weather/runs/*/results/*",
		"s3:GetObject s3:PutObject on " + state + "/weather/runs/*/progress.json",
	},
	"Commit": {
		"s3:GetObject s3:PutObject on " + state + "/weather/lock.json",
		"s3:ListBucket on " + state + " if map[StringLikeIfExists:map[s3:prefix:[weather/*]]]",
		"s3:GetObject s3:PutObject on " + state + "/weather/runs/*",
		"s3:GetObject s3:PutObject on " + ledger + "*",
		"s3:DeleteObject on " + ledger + "segments/*",
	},
	"Release": {
		"s3:GetObject s3:PutObject on " + state + "/weather/lock.json",
		"s3:ListBucket on " + state + " if map[StringLikeIfExists:map[s3:prefix:[weather/*]]]",
		"sqs:SendMessage on ${ReleaseDeadLetters.Arn}",
	},
}

func TestEachFunctionMayDoThisAndNoMore(t *testing.T) {
	tpl := synth(t, shipped(t))
	for name, wanted := range functionGrants {
		t.Run(name, func(t *testing.T) {
			got := lines(tpl.grants(t, tpl.roleOf(t, name+"Function", "Role")))
			logs := "logs:CreateLogStream logs:PutLogEvents on " + at(tpl.Resources[name+"Function"].Properties, "LoggingConfig", "LogGroup").(string)
			wanted := append(slices.Clone(wanted), strings.Replace(logs, "}", ".Arn}", 1), "xray:PutTelemetryRecords xray:PutTraceSegments on *")
			sameLines(t, got, wanted)
		})
	}
}

func TestTheStateMachineMayDoThisAndNoMore(t *testing.T) {
	tpl := synth(t, shipped(t))
	wanted := []string{
		"s3:GetObject on " + state + "/weather/runs/*/manifest-*.json",
		"s3:AbortMultipartUpload s3:GetObject s3:ListMultipartUploadParts s3:PutObject on " + state + "/weather/runs/*/map/*",
		"states:StartExecution on " + states + "stateMachine:lockstep-weather",
		"states:DescribeExecution states:RedriveExecution states:StopExecution on " + states + "execution:lockstep-weather:*",
		"states:DescribeExecution states:RedriveExecution states:StopExecution on " + states + "execution:lockstep-weather/*",
		"logs:CreateLogDelivery logs:DeleteLogDelivery logs:DescribeLogGroups logs:DescribeResourcePolicies logs:GetLogDelivery logs:ListLogDeliveries logs:PutResourcePolicy logs:UpdateLogDelivery " +
			"xray:GetSamplingRules xray:GetSamplingTargets xray:PutTelemetryRecords xray:PutTraceSegments on *",
	}
	for name := range functionGrants {
		wanted = append(wanted, "lambda:InvokeFunction on ${"+name+"Function.Arn}")
	}
	sameLines(t, lines(tpl.grants(t, tpl.roleOf(t, "WeatherStateMachine", "RoleArn"))), wanted)
}

// Without it, a state machine of another account could be given the role.
func TestOnlyStateMachinesOfThisAccountMayUseTheRole(t *testing.T) {
	for text, machines := range map[string][]string{shipped(t): {"WeatherStateMachine"}, rich: {"SalesEuStateMachine", "SalesUsStateMachine"}} {
		tpl := synth(t, text)
		for _, machine := range machines {
			role := tpl.Resources[tpl.roleOf(t, machine, "RoleArn")]
			trust := statementsOf(t, role.Properties["AssumeRolePolicyDocument"])
			if len(trust) != 1 {
				t.Fatalf("%s: %d statements of trust", machine, len(trust))
			}
			if at(trust[0].principal, "Service") != "states.amazonaws.com" || at(trust[0].conditions, "StringEquals", "aws:SourceAccount") != "${AWS::AccountId}" {
				t.Errorf("%s: state machines of others may use the role: %v", machine, trust)
			}
		}
	}
}

func TestTheSchedulerMayStartRunsAndNoMore(t *testing.T) {
	tpl := synth(t, shipped(t))
	target, _ := at(tpl.Resources["WeatherSchedule"].Properties, "Target", "RoleArn").(string)
	role := strings.TrimSuffix(strings.TrimPrefix(target, "${"), ".Arn}")
	sameLines(t, lines(tpl.grants(t, role)), []string{
		"states:StartExecution on ${WeatherStateMachine}",
		"sqs:SendMessage on ${StartDeadLetters.Arn}",
	})
	trust := statementsOf(t, tpl.Resources[role].Properties["AssumeRolePolicyDocument"])
	conditions := at(trust[0].conditions, "StringEquals")
	if at(conditions, "aws:SourceAccount") != "${AWS::AccountId}" || !strings.HasSuffix(at(conditions, "aws:SourceArn").(string), ":schedule-group/lockstep") {
		t.Errorf("schedules of others may use the role: %v", trust)
	}
}

func sameLines(t *testing.T, got, wanted []string) {
	t.Helper()
	for _, line := range got {
		if !slices.Contains(wanted, line) {
			t.Errorf("is allowed, and should not be: %s", line)
		}
	}
	for _, line := range wanted {
		if !slices.Contains(got, line) {
			t.Errorf("is not allowed, and must be: %s", line)
		}
	}
}

// unnamed are the actions that have no resource to name, and why.
var unnamed = map[string]string{
	"xray:": "traces have no resource",
	"logs:": "log delivery to Step Functions has no resource; a function's own logs do",
	"ec2:":  "interfaces in a VPC get their names from Lambda",
}

func TestNoResourceIsAWildcardWithoutAReason(t *testing.T) {
	for name, text := range map[string]string{"shipped": shipped(t), "rich": rich} {
		tpl := synth(t, text)
		for id, r := range tpl.Resources {
			if r.Type != "AWS::IAM::Policy" && r.Type != "AWS::IAM::ManagedPolicy" {
				continue
			}
			for _, s := range statementsOf(t, r.Properties["PolicyDocument"]) {
				for _, action := range s.actions {
					if strings.Contains(action, "*") {
						t.Errorf("%s: %s allows %s", name, id, action)
					}
					service := action[:strings.Index(action, ":")+1]
					if slices.Contains(s.resources, "*") && unnamed[service] == "" {
						t.Errorf("%s: %s allows %s on everything", name, id, action)
					}
				}
			}
		}
	}
}

// Tokens fence replacing an output; nothing would fence deleting one.
func TestNoFunctionMayDeleteDataOrAskStepFunctions(t *testing.T) {
	for _, text := range []string{shipped(t), rich} {
		tpl := synth(t, text)
		for name := range functionGrants {
			for _, s := range tpl.grants(t, tpl.roleOf(t, name+"Function", "Role")) {
				for _, action := range s.actions {
					if strings.HasPrefix(action, "states:") {
						t.Errorf("%s may %s", name, action)
					}
					if !strings.HasPrefix(action, "s3:Delete") {
						continue
					}
					for _, resource := range s.resources {
						segments := name == "Commit" && strings.HasSuffix(resource, "/segments/*")
						probe := name == "Acquire" && strings.HasSuffix(resource, "/.lockstep-probe-*")
						if action != "s3:DeleteObject" || !segments && !probe {
							t.Errorf("%s may %s on %s", name, action, resource)
						}
					}
				}
			}
		}
	}
}

// A request for a whole bucket names no prefix.
func TestAWholeBucketCanBeListed(t *testing.T) {
	tpl := synth(t, rich)
	discover := tpl.grants(t, tpl.roleOf(t, "DiscoverFunction", "Role"))
	for _, c := range []struct {
		bucket  string
		keys    map[string]string
		allowed bool
	}{
		{"acme-inbox-us", nil, true},
		{"acme-inbox-us", map[string]string{"s3:prefix": "any/"}, true},
		{"acme-inbox", map[string]string{"s3:prefix": "eu/"}, true},
		{"acme-inbox", map[string]string{"s3:prefix": "us/"}, false},
		{"acme-inbox", nil, false},
		{"acme-lake", map[string]string{"s3:prefix": "sales/us/"}, true},
		{"acme-lake", nil, false},
	} {
		if got := permits(discover, request{action: "s3:ListBucket", resource: "arn:${AWS::Partition}:s3:::" + c.bucket, keys: c.keys}); got != c.allowed {
			t.Errorf("discover may list %s by %v: %v", c.bucket, c.keys, got)
		}
	}
}

func TestAcquireMayProbeWhereItDoes(t *testing.T) {
	probe := request{action: "s3:DeleteObject", resource: "arn:${AWS::Partition}:s3:::acme-state/sales-us/.lockstep-probe-0123456789abcdef/object"}
	for text, allowed := range map[string]bool{rich: true, strings.Replace(rich, `"LOCKSTEP_PROBE": "true"`, `"LOCKSTEP_PROBE": "false"`, 1): false} {
		tpl := synth(t, text)
		for name := range functionGrants {
			grants := tpl.grants(t, tpl.roleOf(t, name+"Function", "Role"))
			if got := permits(grants, probe); got != (allowed && name == "Acquire") {
				t.Errorf("%s may delete what a probe left: %v", name, got)
			}
		}
	}
}

func TestWhatIsEncryptedCanBeReadAndWritten(t *testing.T) {
	tpl := synth(t, rich)
	for name := range functionGrants {
		grants := tpl.grants(t, tpl.roleOf(t, name+"Function", "Role"))
		for _, action := range []string{"kms:Decrypt", "kms:GenerateDataKey"} {
			if !permits(grants, request{action: action, resource: "${Key.Arn}"}) {
				t.Errorf("%s may not %s", name, action)
			}
		}
		readsSource := permits(grants, request{action: "kms:Decrypt", resource: "arn:aws:kms:eu-central-1:123456789012:key/1234abcd-12ab-34cd-56ef-1234567890ab"})
		if readsSource != (name == "Process") {
			t.Errorf("%s may decrypt sources: %v", name, readsSource)
		}
		variables := at(tpl.Resources[name+"Function"].Properties, "Environment", "Variables")
		if at(variables, "LOCKSTEP_S3_ENCRYPTION") != "aws:kms" || at(variables, "LOCKSTEP_S3_KMS_KEY_ID") != "${Key.Arn}" {
			t.Errorf("%s does not encrypt: %v", name, variables)
		}
	}
	for _, pipeline := range []string{"SalesEu", "SalesUs"} {
		if !permits(tpl.grants(t, tpl.roleOf(t, pipeline+"StateMachine", "RoleArn")), request{action: "kms:GenerateDataKey", resource: "${Key.Arn}"}) {
			t.Errorf("the Map of %s may not write its results", pipeline)
		}
	}
}

// IAM takes 10,240 characters of inline policies in a role, and 6,144 in a
// managed policy.
// Source: IAM user guide, "IAM and AWS STS quotas".
func TestManyPipelinesFitIntoOneStack(t *testing.T) {
	const many = 20
	var pipelines []string
	for i := range many {
		name := fmt.Sprintf("pipeline-with-a-long-name-%02d", i)
		pipelines = append(pipelines, fmt.Sprintf(`%q: {"run": {
			"source": {"bucket": "acme-incoming-files-of-%s", "prefix": "from/the/outside/"},
			"destination": {"bucket": "acme-lake-of-the-whole-company", "prefix": "parquet/%s"},
			"state": {"bucket": "acme-lockstep-state", "prefix": "lockstep/%s"}}}`, name, name, name, name))
	}
	tpl := synth(t, `{"functions": {"environment": {"LOCKSTEP_PROBE": "true"}}, "pipelines": {`+strings.Join(pipelines, ",")+`}}`)
	inline := map[string]int{} // characters, by role
	for id, r := range tpl.Resources {
		text, err := json.Marshal(plain(r.Properties["PolicyDocument"]))
		if err != nil {
			t.Fatal(err)
		}
		switch r.Type {
		case "AWS::IAM::Policy":
			inline[fmt.Sprint(at(r.Properties, "Roles"))] += len(text)
		case "AWS::IAM::ManagedPolicy":
			if len(text) > 6144 {
				t.Errorf("managed policy %s has %d characters", id, len(text))
			}
		}
	}
	for role, size := range inline {
		if size > 10240 {
			t.Errorf("the policies of role %s have %d characters", role, size)
		}
	}
	if n := len(tpl.Resources); n > 500 {
		t.Errorf("%d resources", n)
	}
	if n := len(tpl.Outputs); n > 200 {
		t.Errorf("%d outputs", n)
	}
	// Whatever IAM made of it, each function may still do its work.
	grants := tpl.grants(t, tpl.roleOf(t, "CommitFunction", "Role"))
	if !permits(grants, request{action: "s3:PutObject", resource: "arn:${AWS::Partition}:s3:::acme-lockstep-state/lockstep/pipeline-with-a-long-name-19/lock.json"}) {
		t.Error("the last pipeline was left out")
	}
}

// All in one bucket, which must not wait for itself.
func TestOneBucketForEverything(t *testing.T) {
	tpl := synth(t, `{"createBuckets": ["acme"], "pipelines": {"weather": {"run": {
		"source": {"bucket": "acme", "prefix": "in/"}, "destination": {"bucket": "acme", "prefix": "out/"}, "state": {"bucket": "acme", "prefix": "lockstep/"}}}}}`)
	bucket := only(t, tpl.ofType("AWS::S3::Bucket"))
	text, err := json.Marshal(bucket.Properties)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(text), `"Ref"`) || strings.Contains(string(text), `"Fn::`) {
		t.Errorf("the bucket refers to something: %s", text)
	}
	if grants := tpl.grants(t, tpl.roleOf(t, "ProcessFunction", "Role")); permits(grants, request{action: "s3:PutObject", resource: "arn:${AWS::Partition}:s3:::acme/in/a.csv"}) {
		t.Error("processing may write to its source")
	}
}
