package step

import (
	"cmp"
	"strings"

	"github.com/lockstep-pipeline/lockstep/pkg/lease"
	"github.com/lockstep-pipeline/lockstep/pkg/ledger"
)

// Metric is the name of a number that the steps measure. Its end says its unit.
type Metric string

// The metrics, in the order of a run. docs/metrics.md says more of each.
const (
	LockWaitSeconds Metric = "LockWaitSeconds" // in the queue until the run got the lock, or gave up
	LockTakeovers   Metric = "LockTakeovers"   // holders that vanished: their lease ended, and another run took over
	RunsSuperseded  Metric = "RunsSuperseded"

	FilesNew                    Metric = "FilesNew"       // that the run takes: new, changed, retried, reprocessed
	QuarantineSize              Metric = "QuarantineSize" // files in quarantine
	OldestUnprocessedAgeSeconds Metric = "OldestUnprocessedAgeSeconds"
	LedgerRows                  Metric = "LedgerRows"
	LedgerBytes                 Metric = "LedgerBytes"

	FilesDone        Metric = "FilesDone"
	FilesFailed      Metric = "FilesFailed"      // quarantined ones included
	FilesQuarantined Metric = "FilesQuarantined" // by this run
	Rows             Metric = "Rows"
	Bytes            Metric = "Bytes" // of the source files done

	LockHeldSeconds Metric = "LockHeldSeconds"
	RunsSucceeded   Metric = "RunsSucceeded" // superseded ones not included
)

// Metrics are all there are.
var Metrics = []Metric{
	LockWaitSeconds, LockTakeovers, RunsSuperseded,
	FilesNew, QuarantineSize, OldestUnprocessedAgeSeconds, LedgerRows, LedgerBytes,
	FilesDone, FilesFailed, FilesQuarantined, Rows, Bytes,
	LockHeldSeconds, RunsSucceeded,
}

// Where the metrics are found: the functions write them there, and dashboards
// and alarms read them there. The dimension's value is the pipeline's name.
const (
	MetricNamespace = "Lockstep"
	MetricDimension = "Pipeline"
)

// Unit is what a metric counts in.
type Unit string

// The units, in CloudWatch's words.
const (
	UnitSeconds Unit = "Seconds"
	UnitBytes   Unit = "Bytes"
	UnitCount   Unit = "Count"
)

// Unit is the metric's unit.
func (m Metric) Unit() Unit {
	for _, unit := range []Unit{UnitSeconds, UnitBytes} {
		if strings.HasSuffix(string(m), string(unit)) {
			return unit
		}
	}
	return UnitCount
}

// Measurement is what one step measured of its run, told once its effect is
// there. A step that is called again may tell the same again; but a grant, a
// commit and the end of a grant are told by the call that brought them about,
// and by no call if that one died before it could.
type Measurement struct {
	Pipeline string
	Run      string
	Token    int64 // fencing token; 0 for a run without the lock
	Values   map[Metric]float64
}

func (r *run) measure(token int64, values map[Metric]float64) {
	if r.meter != nil && len(values) > 0 {
		r.meter(Measurement{Pipeline: r.config.Pipeline, Run: r.execution.Name, Token: token, Values: values})
	}
}

// measureTurn tells of a turn at the lock what is not told by another turn: a
// grant that is asked for again was told of when it was fresh.
func (r *run) measureTurn(answer lease.Answer, decision string) {
	values := map[Metric]float64{}
	if n := len(answer.TookFrom); n > 0 || answer.Fresh && decision == DecisionHeld {
		values[LockTakeovers] = float64(n)
	}
	switch {
	case decision == DecisionSuperseded:
		values[RunsSuperseded] = 1
	case decision == DecisionTimedOut, decision == DecisionHeld && answer.Fresh:
		values[LockWaitSeconds] = answer.Waiting.Seconds()
	}
	r.measure(answer.Grant.Token, values)
}

func (r *run) measureDiscovery(token int64, out DiscoverOutput, found ledger.Discovery, before ledger.Head) {
	values := map[Metric]float64{
		FilesNew: float64(out.Files), LedgerRows: float64(before.Rows()), LedgerBytes: float64(before.Bytes()),
		OldestUnprocessedAgeSeconds: 0,
	}
	if !found.Oldest.IsZero() {
		values[OldestUnprocessedAgeSeconds] = max(0, out.Cutoff.Sub(found.Oldest).Seconds())
	}
	r.addQuarantine(values, found, 0)
	r.measure(token, values)
}

func (r *run) measureCommit(token int64, s Summary, found ledger.Discovery) {
	values := map[Metric]float64{
		FilesDone: float64(s.Done), FilesFailed: float64(s.Failed), FilesQuarantined: float64(s.Quarantined),
		Rows: float64(s.Rows), Bytes: float64(s.Bytes),
	}
	r.addQuarantine(values, found, s.Quarantined)
	r.measure(token, values)
}

// addQuarantine adds the files in quarantine, those included that this run put
// there. A listing of a part, or one that takes quarantined files again, does
// not see all: then the number is told only if it is above zero, so that nobody
// takes an empty part for an empty quarantine.
func (r *run) addQuarantine(values map[Metric]float64, found ledger.Discovery, added int64) {
	size := found.Skipped[ledger.SkipQuarantined] + added
	if seesAll := found.After == "" && !r.config.Selection.Reprocess; seesAll || size > 0 {
		values[QuarantineSize] = float64(size)
	}
}

func (r *run) measureRelease(released lease.Released, asked int64, finished bool) {
	values := map[Metric]float64{}
	if released.Held {
		values[LockHeldSeconds] = max(0, released.Now.Sub(released.Acquired).Seconds())
	}
	if finished {
		values[RunsSucceeded] = 1
	}
	r.measure(cmp.Or(released.Token, asked), values)
}
