package asl_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstep-pipeline/lockstep/internal/asl"
	"github.com/lockstep-pipeline/lockstep/internal/asl/mock"
)

// everything has every kind of state that can be stopped in the middle, one inside the other.
const everything = `{"StartAt":"Q","States":{"Q":{"Type":"Parallel","End":true,"Branches":[
 {"StartAt":"W","States":{"W":{"Type":"Wait","Seconds":2,"End":true}}},
 {"StartAt":"I","States":{"I":{"Type":"Map","ItemsPath":"$.items","MaxConcurrency":2,"End":true,
  "ItemProcessor":{"StartAt":"T","States":{"T":{"Type":"Task","Resource":"arn:aws:lambda:us-east-1:123456789012:function:f","TimeoutSeconds":9,"End":true,
   "Retry":[{"ErrorEquals":["E"]}]}}}}}},
 {"StartAt":"D","States":{"D":{"Type":"Map","ItemsPath":"$.items","MaxConcurrency":2,"End":true,
  "ItemProcessor":{"ProcessorConfig":{"Mode":"DISTRIBUTED","ExecutionType":"STANDARD"},"StartAt":"U","States":{"U":{"Type":"Task","Resource":"arn:aws:lambda:us-east-1:123456789012:function:f","End":true}}}}}}]}}}`

const everyMock = `{"T":[{"error":"E","seconds":1},{"return":1,"seconds":1}],"U":{"return":2,"seconds":1}}`

// TestAbortAtEveryEvent stops the machine at each of its events in turn. Whatever runs at that moment, the abort is the
// last event, nothing stays RUNNING, and nothing stays behind: the bubble would report a goroutine that does.
func TestAbortAtEveryEvent(t *testing.T) {
	whole := len(run(t, everything, `{"items":[1,2,3]}`, everyMock).History())
	if whole < 40 {
		t.Fatalf("the machine has only %d events", whole)
	}
	for at := 1; at < whole; at++ {
		synctest.Test(t, func(t *testing.T) {
			world, err := mock.Load([]byte(everyMock))
			if err != nil {
				t.Fatal(err)
			}
			s := &story{on: func(e *asl.Execution, event asl.Event) {
				if e.MapRun() == nil && event.ID == int64(at) {
					e.Abort("", "")
				}
			}}
			m := machine(t, everything, asl.Config{Lambda: world, Objects: world, Observer: s})
			e, err := m.Start(t.Context(), asl.Input{JSON: `{"items":[1,2,3]}`})
			if err != nil {
				t.Fatal(err)
			}
			if status := e.Wait(); status != asl.StatusAborted {
				t.Errorf("at event %d: status %s", at, status)
			}
			events := e.History()
			if last := events[len(events)-1]; len(events) != at+1 || last.Type != asl.ExecutionAborted {
				t.Errorf("at event %d: %d events, the last is %s", at, len(events), last.Type)
			}
			for _, run := range e.MapRuns() {
				if run.Describe().Status == asl.StatusRunning || run.Describe().ExecutionCounts.Running > 0 {
					t.Errorf("at event %d: a Map Run still runs: %+v", at, run.Describe())
				}
			}
		})
	}
}

func TestTheSameMachineHasTheSameHistory(t *testing.T) {
	first := compact(t, run(t, everything, `{"items":[1,2,3]}`, everyMock))
	for range 20 {
		if got := compact(t, run(t, everything, `{"items":[1,2,3]}`, everyMock)); fmt.Sprint(got) != fmt.Sprint(first) {
			t.Fatalf("two histories:\n%q\n%q", first, got)
		}
	}
}

func TestSimulatedTimeShowsTheFullLengthHoweverLongItTakes(t *testing.T) {
	scale, err := asl.ScaleWaits(0.01)
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		scale asl.WaitScale
		takes time.Duration
	}{"at once": {noWaiting, 0}, "a hundredth": {scale, 600 * time.Millisecond}} {
		synctest.Test(t, func(t *testing.T) {
			begun := time.Now()
			e := start(t, waiting, "{}", asl.Config{Simulated: true, WaitScale: test.scale})
			e.Wait()
			if took := time.Since(begun); took != test.takes {
				t.Errorf("%s: it took %v, not %v", name, took, test.takes)
			}
			events := e.History()
			if shown := events[2].Timestamp.Sub(events[1].Timestamp); shown != time.Minute {
				t.Errorf("%s: the history shows %v", name, shown)
			}
		})
	}
}
