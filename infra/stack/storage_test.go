package stack_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

func TestDataOutlivesTheStack(t *testing.T) {
	for name, text := range map[string]string{"shipped": shipped(t), "rich": rich} {
		tpl := synth(t, text)
		for _, kind := range []string{"AWS::S3::Bucket", "AWS::S3::BucketPolicy", "AWS::KMS::Key"} {
			for id, r := range tpl.ofType(kind) {
				if r.DeletionPolicy != "Retain" {
					t.Errorf("%s: %s would be deleted with the stack", name, id)
				}
			}
		}
	}
}

func TestBucketsAreClosedVersionedAndEncrypted(t *testing.T) {
	for text, algorithm := range map[string]string{shipped(t): "AES256", rich: "aws:kms"} {
		tpl := synth(t, text)
		buckets := tpl.ofType("AWS::S3::Bucket")
		if len(buckets) == 0 {
			t.Error("there are no buckets")
		}
		for id, r := range buckets {
			for _, setting := range []string{"BlockPublicAcls", "BlockPublicPolicy", "IgnorePublicAcls", "RestrictPublicBuckets"} {
				if at(r.Properties, "PublicAccessBlockConfiguration", setting) != true {
					t.Errorf("%s: %s is not set", id, setting)
				}
			}
			if at(r.Properties, "VersioningConfiguration", "Status") != "Enabled" {
				t.Errorf("%s keeps no versions", id)
			}
			encryption, _ := json.Marshal(at(r.Properties, "BucketEncryption"))
			if !strings.Contains(string(encryption), `"`+algorithm+`"`) {
				t.Errorf("%s is encrypted by %s, not %s", id, encryption, algorithm)
			}
			if !decided(tpl.bucketPolicy(t, id), request{action: "s3:GetObject", resource: "${" + id + ".Arn}/x", keys: map[string]string{"aws:SecureTransport": "false"}}, "Deny") {
				t.Errorf("%s answers without TLS", id)
			}
		}
	}
}

// bucketPolicy is that of a bucket that the stack makes.
func (tpl template) bucketPolicy(t *testing.T, id string) []statement {
	t.Helper()
	for _, policy := range tpl.ofType("AWS::S3::BucketPolicy") {
		if at(policy.Properties, "Bucket") == "${"+id+"}" {
			return statementsOf(t, policy.Properties["PolicyDocument"])
		}
	}
	t.Fatalf("%s has no policy", id)
	return nil
}

// The lock and the ledger's head are changed by conditional writes only, and
// never deleted: neither by the functions, nor by an administrator's mistake.
func TestLockAndHeadAreGuarded(t *testing.T) {
	made := synth(t, shipped(t))
	checkGuards(t, "a bucket that the stack makes", made.bucketPolicy(t, "StateBucket"), state+"/weather/")

	existing := synth(t, strings.Replace(rich, `"createBuckets": ["acme-state"],`, "", 1))
	policies, _ := existing.Metadata["LockstepBucketPolicies"].(map[string]any)
	for _, folder := range []string{"sales-eu/", "sales-us/"} {
		checkGuards(t, "an existing bucket", statementsOf(t, policies["acme-state"]), "arn:${AWS::Partition}:s3:::acme-state/"+folder)
	}
	for name := range policies {
		if !decided(statementsOf(t, policies[name]), request{action: "s3:GetObject", resource: "arn:${AWS::Partition}:s3:::" + name + "/x", keys: map[string]string{"aws:SecureTransport": "false"}}, "Deny") {
			t.Errorf("existing bucket %s may answer without TLS", name)
		}
	}
}

func checkGuards(t *testing.T, what string, policy []statement, folder string) {
	t.Helper()
	ifMatch, create, none := map[string]string{"s3:if-match": `"x"`}, map[string]string{"s3:if-none-match": "*"}, map[string]string{}
	for _, c := range []struct {
		action, key string
		keys        map[string]string
		denied      bool
	}{
		{"s3:PutObject", "lock.json", none, true},
		{"s3:PutObject", "lock.json", ifMatch, false},
		{"s3:PutObject", "lock.json", create, false},
		{"s3:GetObject", "lock.json", none, false},
		{"s3:DeleteObject", "lock.json", none, true},
		{"s3:DeleteObjectVersion", "lock.json", none, true},
		{"s3:PutObject", "ledger/inbox/head.json", none, true},
		{"s3:PutObject", "ledger/inbox/head.json", ifMatch, false},
		{"s3:PutObject", "ledger/inbox/head.json", create, false},
		{"s3:DeleteObject", "ledger/inbox/head.json", none, true},
		{"s3:DeleteObjectVersion", "ledger/inbox/head.json", none, true},
		{"s3:PutObject", "ledger/inbox/segments/00000001-abc", none, false},
		{"s3:DeleteObject", "ledger/inbox/segments/00000001-abc", none, false},
		{"s3:PutObject", "runs/r/0000000000000001/manifest-0123456789abcdef.json", none, false},
	} {
		got := decided(policy, request{action: c.action, resource: folder + c.key, keys: c.keys}, "Deny")
		if got != c.denied {
			t.Errorf("%s: %s of %s%s with %v is denied: %v", what, c.action, folder, c.key, c.keys, got)
		}
	}
	for _, s := range policy {
		if s.effect == "Deny" && !slices.Contains([]any{"*"}, s.principal) && at(s.principal, "AWS") != "*" {
			t.Errorf("%s: %s spares somebody: %v", what, s.sid, s.principal)
		}
	}
}

func TestOldVersionsGoAndTheLedgerStays(t *testing.T) {
	tpl := synth(t, shipped(t))
	rules, _ := at(tpl.Resources["StateBucket"].Properties, "LifecycleConfiguration", "Rules").([]any)
	days := map[string]float64{} // shortest term of noncurrent versions, by folder
	aborts := false
	for _, rule := range rules {
		prefix, _ := at(rule, "Prefix").(string)
		if _, expires := at(rule, "ExpirationInDays").(float64); expires && prefix != "weather/runs/" {
			t.Errorf("what lies in %q expires, and it is no run record", prefix)
		}
		if n, has := at(rule, "NoncurrentVersionExpiration", "NoncurrentDays").(float64); has {
			days[prefix] = n
		}
		aborts = aborts || prefix == "" && at(rule, "AbortIncompleteMultipartUpload", "DaysAfterInitiation") != nil
	}
	if !aborts {
		t.Error("parts of uploads that were given up stay for ever")
	}
	for prefix, most := range map[string]float64{"weather/lock.json": 1, "weather/ledger/": 30, "weather/runs/": 30} {
		if n, has := days[prefix]; !has || n > most {
			t.Errorf("old versions below %s stay for %v days", prefix, n)
		}
	}
}

// The folders of the rules are those of the functions' own keys.
func TestFoldersAreThoseOfTheEvents(t *testing.T) {
	tpl := synth(t, shipped(t))
	grants := tpl.grants(t, tpl.roleOf(t, "WeatherStateMachine", "RoleArn"))
	for action, key := range map[string]string{
		"s3:GetObject": "weather/runs/2026-01-31-0900/0001769850001000/manifest-6f1d0c2a9be84735.json", // as in events/commit.json
		"s3:PutObject": "weather/runs/2026-01-31-0900/map/0f/manifest.json",
	} {
		if !permits(grants, request{action: action, resource: state + "/" + key}) {
			t.Errorf("the state machine may not %s %s", action, key)
		}
	}
}
