package functions

import (
	"encoding/json"
	"io"
	"log/slog"
	"maps"
	"strconv"
	"strings"
	"time"

	"github.com/lockstep-pipeline/lockstep/internal/step"
)

// metricWriter writes measurements in CloudWatch's embedded metric format: a
// JSON object a line, whose member "_aws" says which of the other members are
// metrics and dimensions. CloudWatch Logs makes metrics of such lines by itself,
// so that a function calls nothing and waits for nobody.
//
// The run and its token are members as well, and no dimensions: each value of
// those would be a metric of its own, to be paid for.
//
// Source: CloudWatch user guide, "Specification: Embedded metric format".
type metricWriter struct {
	to       io.Writer
	function string
	log      *slog.Logger
}

// embedded is the member "_aws".
type embedded struct {
	Timestamp         int64 // milliseconds since 1970
	CloudWatchMetrics []metricDirective
}

type metricDirective struct {
	Namespace  string
	Dimensions [][]string // sets of members' names
	Metrics    []metricDefinition
}

type metricDefinition struct {
	Name step.Metric // of a member
	Unit step.Unit
}

// write never fails: a run must not end because nobody can see how it does.
func (w metricWriter) write(m step.Measurement) {
	line, err := w.line(m, time.Now())
	if err == nil {
		_, err = w.to.Write(line) // at once, so that no other line gets into it
	}
	if err != nil {
		w.log.Warn("metrics not written", "run", m.Run, "error", err)
	}
}

func (w metricWriter) line(m step.Measurement, now time.Time) ([]byte, error) {
	directive := metricDirective{Namespace: step.MetricNamespace, Dimensions: [][]string{{step.MetricDimension}}}
	members := map[string]any{}
	for _, name := range step.Metrics {
		if value, measured := m.Values[name]; measured {
			directive.Metrics = append(directive.Metrics, metricDefinition{name, name.Unit()})
			members[string(name)] = value
		}
	}
	maps.Copy(members, map[string]any{
		"_aws":               embedded{now.UnixMilli(), []metricDirective{directive}},
		step.MetricDimension: dimension(m.Pipeline),
		"function":           w.function,
		"run":                m.Run,
		"token":              m.Token,
		// Lambda reads these three of any line that is JSON, where the function's
		// log format is JSON, and adds what it does not find.
		// Source: Lambda developer guide, "Log-level filtering".
		"level":     slog.LevelInfo,
		"timestamp": now.UTC().Format(time.RFC3339Nano),
		"message":   "measured",
	})
	line, err := json.Marshal(members)
	return append(line, '\n'), err
}

// dimension writes a name in the characters that a dimension's value may have.
// Source: CloudWatch API reference, "Dimension".
func dimension(name string) string {
	const most = 1024
	if strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r > '~' }) {
		quoted := strconv.QuoteToASCII(name)
		name = quoted[1 : len(quoted)-1]
	}
	return name[:min(len(name), most)]
}
