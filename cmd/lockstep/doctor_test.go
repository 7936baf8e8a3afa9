package main

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lockstep-pipeline/lockstep/pkg/bucket"
	"github.com/lockstep-pipeline/lockstep/pkg/bucket/s3test"
	"github.com/lockstep-pipeline/lockstep/pkg/s3lock"
)

// doctor runs "lockstep doctor" against an S3 that fails as told.
func doctor(t *testing.T, faults []s3test.Fault, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	server := s3test.New(t, bucket.NewMemory("bucket", nil))
	for _, f := range faults {
		f.Times = s3test.Always
		server.Fail(f)
	}
	front := httptest.NewServer(server)
	defer front.Close()
	t.Setenv("AWS_ACCESS_KEY_ID", "test")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "test")
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	t.Setenv("AWS_CONFIG_FILE", "/dev/null")
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", "/dev/null")
	var out, err bytes.Buffer
	args = append([]string{"doctor", "--endpoint-url", front.URL, "--path-style", "--rounds", "1"}, args...)
	code = run(t.Context(), args, &console{Out: &out, Err: &err})
	return out.String(), err.String(), code
}

func ignoring(condition string) s3test.Failure {
	return func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		r.Header.Del(condition)
		next.ServeHTTP(w, r)
	}
}

var (
	badStore  = []s3test.Fault{{Op: "put", Do: ignoring("If-Match")}}
	forbidden = []s3test.Fault{{Op: "put", Do: s3test.Answer(403, "AccessDenied")}}
)

func TestDoctorTellsAGoodEndpointFromABadOne(t *testing.T) {
	for _, c := range []struct {
		name   string
		faults []s3test.Fault
		code   int
		says   []string
	}{
		{"good", nil, 0, []string{"ok       stale swap: ", "s3://bucket/locks/ can keep locks ("}},
		{"bad", badStore, doctorRefused, []string{"refused  stale swap: ", "cannot keep locks"}},
		{"no permission", forbidden, doctorCannotTell, []string{"denied   write access: ", "s3:PutObject on arn:aws:s3:::bucket/locks/*", "could not be tried"}},
		{"nothing may be removed", []s3test.Fault{{Op: "delete", Do: s3test.Answer(403, "AccessDenied")}}, 0,
			[]string{"note     cleanup: ", "s3:DeleteObject", `left behind: "locks/.lockstep-probe-`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			stdout, stderr, code := doctor(t, c.faults, "s3://bucket/locks")
			if code != c.code || stderr != "" {
				t.Errorf("exit code %d, want %d; %s", code, c.code, stderr)
			}
			for _, want := range c.says {
				if !strings.Contains(stdout, want) {
					t.Errorf("no %q in\n%s", want, stdout)
				}
			}
		})
	}
}

func TestDoctorInJSON(t *testing.T) {
	for _, c := range []struct {
		name    string
		faults  []s3test.Fault
		code    int
		verdict s3lock.Verdict
		check   string
	}{
		{"good", nil, 0, s3lock.OK, ""},
		{"bad", badStore, doctorRefused, s3lock.Refused, "stale swap"},
		{"no permission", forbidden, doctorCannotTell, s3lock.Denied, "write access"},
	} {
		t.Run(c.name, func(t *testing.T) {
			stdout, stderr, code := doctor(t, c.faults, "-o", "json", "--list", "s3://bucket/locks")
			var report s3lock.Report
			if err := json.Unmarshal([]byte(stdout), &report); err != nil {
				t.Fatalf("%v in %s%s", err, stdout, stderr)
			}
			if code != c.code || report.Verdict != c.verdict || report.URL != "s3://bucket/locks/" || report.Requests == 0 {
				t.Errorf("exit code %d, %+v", code, report)
			}
			listed, found := false, c.check == ""
			for _, f := range report.Findings {
				listed = listed || f.Check == "listing"
				found = found || f.Check == c.check && f.Verdict == c.verdict
			}
			if !listed || !found {
				t.Errorf("findings %+v", report.Findings)
			}
		})
	}
}

func TestDoctorThatCannotReachItsEndpointCannotTell(t *testing.T) {
	stdout, _, code := doctor(t, []s3test.Fault{{Do: s3test.LoseRequest}}, "--timeout", "2s", "s3://bucket/locks")
	if code != doctorCannotTell || !strings.Contains(stdout, "unknown  write access") {
		t.Errorf("exit code %d\n%s", code, stdout)
	}
}

func TestDoctorRefusesWrongUsage(t *testing.T) {
	for name, args := range map[string][]string{
		"no URL":      {},
		"not S3":      {"https://bucket/locks"},
		"no rounds":   {"--rounds", "0", "s3://bucket/locks"},
		"no time":     {"--timeout", "0s", "s3://bucket/locks"},
		"long":        {"s3://bucket/" + strings.Repeat("k", 1020)},
		"encryption":  {"--encryption", "rot13", "s3://bucket/locks"},
		"many rounds": {"--rounds", "1001", "s3://bucket/locks"},
	} {
		if stdout, stderr, code := doctor(t, nil, args...); code != doctorUsage || stdout != "" && name != "no URL" || stderr == "" {
			t.Errorf("%s: exit code %d, %q, %q", name, code, stdout, stderr)
		}
	}
}

func TestHelpOfDoctor(t *testing.T) {
	t.Setenv("COLUMNS", "100")
	var out bytes.Buffer
	if code := run(t.Context(), []string{"doctor", "--help"}, &console{Out: &out, Err: &out}); code != 0 {
		t.Errorf("exit code %d", code)
	}
	golden := filepath.Join("testdata", "help", "doctor.txt")
	if *update {
		if err := os.WriteFile(golden, out.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if out.String() != string(want) {
		t.Errorf("%s changed (-update rewrites it):\n%s", golden, out.String())
	}
}
