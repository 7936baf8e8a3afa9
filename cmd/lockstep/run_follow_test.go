package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sfn/types"
	"github.com/aws/smithy-go"

	"github.com/lockstep-pipeline/lockstep/internal/asl"
	"github.com/lockstep-pipeline/lockstep/internal/step"
)

// script is an execution that is followed: what the service answers, one
// question after the other, the last answer again and again.
type script struct {
	answers []answer
	asked   []time.Duration // when, since the beginning
	began   time.Time
}

type answer struct {
	events []asl.Event
	err    error
}

func (s *script) news(_ context.Context, after int64) ([]asl.Event, error) {
	s.asked = append(s.asked, time.Since(s.began))
	a := s.answers[min(len(s.asked), len(s.answers))-1]
	return slices.DeleteFunc(slices.Clone(a.events), func(e asl.Event) bool { return e.ID <= after }), a.err
}

// entered are events of states that are entered, a second apart; an input may
// follow the name.
func entered(states ...string) []asl.Event {
	events := []asl.Event{{ID: 1, Type: asl.ExecutionStarted, Timestamp: noon}}
	for i, state := range states {
		name, input, _ := strings.Cut(state, " ")
		event := asl.Event{ID: int64(i + 2), Type: "TaskStateEntered", Timestamp: noon.Add(time.Duration(i+1) * time.Second), Details: asl.StateEnteredDetails{Name: name, Input: input}}
		if name == "ended" {
			event.Type, event.Details = asl.ExecutionSucceeded, asl.OutputDetails{Output: "{}"}
		}
		events = append(events, event)
	}
	return events
}

// followed follows a script in a time that is not real.
func followed(t *testing.T, s *script, inPlace bool, progress func(context.Context, int64) (*step.Progress, error)) (told string, last asl.Event, err error) {
	t.Helper()
	var out bytes.Buffer
	synctest.Test(t, func(t *testing.T) {
		s.began = time.Now()
		f := &follower{news: s.news, progress: progress, out: &liveLines{w: &out, inPlace: inPlace}}
		last, err = f.follow(t.Context())
	})
	return out.String(), last, err
}

func noProgress(context.Context, int64) (*step.Progress, error) { return nil, nil }

const (
	refused = `{"acquired":{"decision":"wait","reason":"held by P1"}}`
	granted = `{"acquired":{"decision":"held","token":7},"discovered":{"files":76,"batches":8}}`
)

func TestStatesAreToldOnceAndTurnsAtTheLockOnce(t *testing.T) {
	states := []string{"AcquireLock", "LockDecision " + refused, "WaitForLock " + refused, "AcquireLock " + refused, "LockDecision " + refused, "WaitForLock " + refused,
		"AcquireLock " + refused, "LockDecision " + granted, "DiscoverFiles " + granted, "ProcessFiles " + granted,
		`ReleaseAfterFailure {"failure":{"Error":"StepError","Cause":"{\"errorMessage\":\"no\\nluck\",\"errorType\":\"StepError\"}"}}`, "ended"}
	const want = `    1.0s  AcquireLock
    2.0s  LockDecision
    3.0s  WaitForLock    held by P1
    9.0s  DiscoverFiles  with token 7
   10.0s  ProcessFiles   76 files in 8 batches
   11.0s  ReleaseAfterFailure  StepError: no luck
`
	s := &script{answers: []answer{{events: entered(states[:4]...)}, {events: entered(states[:9]...)}, {events: entered(states...)}}}
	told, last, err := followed(t, s, false, noProgress)
	if err != nil || last.Type != asl.ExecutionSucceeded || told != want {
		t.Errorf("%v, %+v, told\n%s, want\n%s", err, last, told, want)
	}
}

func TestWhatChangesIsShownInPlaceAtATerminal(t *testing.T) {
	states := []string{"AcquireLock", "WaitForLock " + refused, "WaitForLock " + refused, "WaitForLock " + refused, "DiscoverFiles " + granted, "ended"}
	s := &script{answers: []answer{{events: entered(states[:4]...)}, {events: entered(states...)}}}
	told, _, _ := followed(t, s, true, noProgress)
	const want = "    1.0s  AcquireLock\n    2.0s  WaitForLock    held by P1\n" +
		"    3.0s  WaitForLock (2 turns)\r\x1b[K    4.0s  WaitForLock (3 turns)\r\x1b[K    5.0s  DiscoverFiles  with token 7\n"
	if told != want {
		t.Errorf("told %q, want %q", told, want)
	}
}

func TestProgressIsToldWhileFilesAreProcessed(t *testing.T) {
	states := []string{"AcquireLock", "ProcessFiles " + granted, "CommitLedger " + granted, "ended"}
	s := &script{answers: slices.Concat(slices.Repeat([]answer{{events: entered(states[:2]...)}}, 12), []answer{{events: entered(states...)}})}
	batches := []int{0, 0, 3, 3, 5}
	var tokens []int64
	told, _, _ := followed(t, s, false, func(_ context.Context, token int64) (*step.Progress, error) {
		tokens = append(tokens, token)
		done := batches[min(len(tokens), len(batches))-1]
		return &step.Progress{Batches: 8, BatchesDone: done, Updated: noon.Add(time.Duration(10+done) * time.Second)}, nil
	})
	const want = `    1.0s  AcquireLock
    2.0s  ProcessFiles   76 files in 8 batches
   13.0s  3 of 8 batches done
   15.0s  5 of 8 batches done
    3.0s  CommitLedger
`
	if told != want || tokens[0] != 7 {
		t.Errorf("%v, told\n%s, want\n%s", tokens, told, want)
	}

	committing := &script{answers: []answer{{events: entered("ProcessFiles "+granted, "CommitLedger "+granted)}, {}, {}, {}, {events: entered("ProcessFiles "+granted, "CommitLedger "+granted, "ended")}}}
	if told, _, _ := followed(t, committing, false, func(context.Context, int64) (*step.Progress, error) {
		t.Error("progress was asked for while the run commits")
		return nil, nil
	}); strings.Contains(told, "done") {
		t.Errorf("told\n%s", told)
	}

	s.asked = nil
	calls := 0
	told, _, err := followed(t, s, false, func(context.Context, int64) (*step.Progress, error) {
		calls++
		return nil, errors.New("AccessDenied")
	})
	if err != nil || calls != 1 || strings.Count(told, "cannot see how far it is: AccessDenied\n") != 1 {
		t.Errorf("%v, %d calls, told\n%s", err, calls, told)
	}
}

func TestTheLessHappensTheLessIsAsked(t *testing.T) {
	quiet := answer{events: entered("Wait")}
	s := &script{answers: slices.Concat(slices.Repeat([]answer{quiet}, 10), []answer{{events: entered("Wait", "Next")}}, slices.Repeat([]answer{{events: entered("Wait", "Next")}}, 2), []answer{{events: entered("Wait", "Next", "ended")}})}
	if _, _, err := followed(t, s, false, noProgress); err != nil {
		t.Fatal(err)
	}
	var pauses []string
	for i := range s.asked[1:] {
		pauses = append(pauses, (s.asked[i+1] - s.asked[i]).String())
	}
	const want = "500ms 750ms 1.125s 1.6875s 2.53125s 3.796875s 5s 5s 5s 5s 500ms 750ms 1.125s"
	if got := strings.Join(pauses, " "); got != want {
		t.Errorf("pauses %s, want %s", got, want)
	}
}

func TestTroubleOfTheMomentIsBorne(t *testing.T) {
	throttled := answer{err: &smithy.GenericAPIError{Code: "ThrottlingException", Message: "Rate exceeded"}}
	unknown := answer{err: &types.ExecutionDoesNotExist{}}
	s := &script{answers: []answer{unknown, throttled, throttled, {events: entered("Work")}, throttled, {events: entered("Work", "ended")}}}
	told, last, err := followed(t, s, false, noProgress)
	if err != nil || last.Type != asl.ExecutionSucceeded || strings.Count(told, "cannot ask how it goes, trying again: ") != 2 {
		t.Errorf("%v, told\n%s", err, told)
	}

	s = &script{answers: []answer{throttled}}
	if _, _, err := followed(t, s, false, noProgress); err == nil || len(s.asked) != mostFailures+1 {
		t.Errorf("%v, after %d questions", err, len(s.asked))
	}
	s = &script{answers: []answer{{err: &smithy.GenericAPIError{Code: "AccessDeniedException", Message: "no"}}}}
	if _, _, err := followed(t, s, false, noProgress); err == nil || len(s.asked) != 1 {
		t.Errorf("%v, after %d questions", err, len(s.asked))
	}
}

func TestAnEventThatIsMissingIsWaitedFor(t *testing.T) {
	all := entered("One", "Two", "Three", "ended")
	gap := slices.Delete(slices.Clone(all), 2, 3)
	told, _, err := followed(t, &script{answers: []answer{{events: gap}, {events: all}}}, false, noProgress)
	if want := "    1.0s  One\n    2.0s  Two\n    3.0s  Three\n"; err != nil || told != want {
		t.Errorf("%v, told\n%s", err, told)
	}
}

func TestAFollowerStopsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		s := &script{answers: []answer{{events: entered("Wait")}}, began: time.Now()}
		var out bytes.Buffer
		f := &follower{news: s.news, progress: noProgress, out: &liveLines{w: &out}}
		began := time.Now()
		if _, err := f.follow(ctx); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != time.Minute {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
}

func TestWhereARunIsSeenInTheConsole(t *testing.T) {
	for execution, want := range map[string]string{
		"arn:aws:states:eu-central-1:123456789012:execution:m:n":         "https://eu-central-1.console.aws.amazon.com/states/home?region=eu-central-1#/v2/executions/details/",
		"arn:aws-cn:states:cn-north-1:123456789012:execution:m:n":        "https://cn-north-1.console.amazonaws.cn/states/home?region=cn-north-1#/v2/executions/details/",
		"arn:aws-us-gov:states:us-gov-west-1:123456789012:execution:m:n": "https://console.amazonaws-us-gov.com/states/home?region=us-gov-west-1#/v2/executions/details/",
		"arn:aws-iso:states:us-iso-east-1:123456789012:execution:m:n":    "",
		"nonsense": "",
	} {
		if want != "" {
			want += execution
		}
		if got := consoleURL(execution); got != want {
			t.Errorf("%s: %s", execution, got)
		}
	}
	for endpoint, want := range map[string]bool{"": true, "https://states.eu-central-1.amazonaws.com": true, "https://vpce-1.states.cn-north-1.vpce.amazonaws.com.cn": true, "http://127.0.0.1:4566": false} {
		if isAWS(endpoint) != want {
			t.Errorf("%q is AWS: %t", endpoint, !want)
		}
	}
}

func TestAnOutcomeIsToldInFull(t *testing.T) {
	start, stop := asl.Time(noon), asl.Time(noon.Add(90*time.Second))
	name, cause := "LockWaitTimedOut", "waited 3600 s"
	report := runReport{StartDate: start, StopDate: &stop}
	for want, set := range map[string]func(r *runReport){
		"SUCCEEDED after 1m30s: skipped, for enough runs wait already, and one of them does this work\n": func(r *runReport) { r.Status, r.LastState = "SUCCEEDED", "RunSkipped" },
		"SUCCEEDED after 1m30s: nothing new\n":                        func(r *runReport) { r.Status, r.LastState, r.Token = "SUCCEEDED", "RunSucceeded", 3 },
		"SUCCEEDED after 1m30s\n  summary      s3://b/summary.json\n": func(r *runReport) { r.Status, r.SummaryURL = "SUCCEEDED", "s3://b/summary.json" },
		"FAILED after 1m30s: LockWaitTimedOut: waited 3600 s\n":       func(r *runReport) { r.Status, r.Error, r.Cause = "FAILED", &name, &cause },
		"TIMED_OUT after 1m30s\n":                                     func(r *runReport) { r.Status = "TIMED_OUT" },
		fullOutcome: func(r *runReport) {
			r.Status, r.SummaryURL = "SUCCEEDED", "s3://b/summary.json"
			r.Summary = &step.Summary{Done: 1, Rows: 1, Rejected: 2, Failed: 12, Quarantined: 1, Superseded: 3, Deferred: 4, Left: 5}
			for i := range 12 {
				r.Summary.Failures = append(r.Summary.Failures, step.FileFailure{Key: fmt.Sprint("in/", i), Error: fmt.Sprintf("process %q: malformed", fmt.Sprint("in/", i))})
			}
		},
	} {
		r, out := report, new(bytes.Buffer)
		set(&r)
		if err := writeOutcome(out, r); err != nil || out.String() != want {
			t.Errorf("%v: got\n%s, want\n%s", err, out, want)
		}
	}
}

const fullOutcome = `SUCCEEDED after 1m30s
  done         1 file, 1 row
  rejected     2 rows that could not be read, kept beside the outputs
  failed       12 files
  quarantined  1 file of those
  superseded   3 files that changed meanwhile
  deferred     4 files to the next run
  left         5 files for the next run
    in/0: malformed
    in/1: malformed
    in/2: malformed
    in/3: malformed
    in/4: malformed
    in/5: malformed
    in/6: malformed
    in/7: malformed
    in/8: malformed
    in/9: malformed
  summary      s3://b/summary.json
`
