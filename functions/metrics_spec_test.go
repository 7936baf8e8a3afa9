package functions

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"regexp"
	"slices"
	"strings"
)

// checkEmbedded holds a line to the rules of CloudWatch's embedded metric
// format. It shares no code with what writes the lines.
//
// Sources: CloudWatch user guide, "Specification: Embedded metric format" and
// "Metrics concepts"; CloudWatch API reference, "Dimension" and "MetricDatum".
func checkEmbedded(line []byte) error {
	const mostBytes = 256 << 10 // of an event; 1 MiB since 2025
	if len(line) > mostBytes || !bytes.HasSuffix(line, []byte("\n")) || bytes.Count(line, []byte("\n")) != 1 {
		return fmt.Errorf("it is %d bytes in %d lines", len(line), bytes.Count(line, []byte("\n")))
	}
	root, err := members(line)
	if err != nil {
		return fmt.Errorf("root: %w", err)
	}
	meta, err := members(root["_aws"], "Timestamp", "CloudWatchMetrics")
	if err != nil {
		return fmt.Errorf("_aws: %w", err)
	}
	var at float64
	if err := json.Unmarshal(meta["Timestamp"], &at); err != nil || at != math.Trunc(at) || at < 1e12 || at > 1e13 {
		return fmt.Errorf("timestamp %s are no milliseconds", meta["Timestamp"])
	}
	var directives []json.RawMessage
	if err := json.Unmarshal(meta["CloudWatchMetrics"], &directives); err != nil || len(directives) == 0 {
		return fmt.Errorf("directives %s: %v", meta["CloudWatchMetrics"], err)
	}
	for _, directive := range directives {
		if err := checkDirective(directive, root); err != nil {
			return err
		}
	}
	return nil
}

func checkDirective(directive json.RawMessage, root map[string]json.RawMessage) error {
	parts, err := members(directive, "Namespace", "Dimensions", "Metrics")
	if err != nil {
		return fmt.Errorf("directive: %w", err)
	}
	var (
		namespace  string
		dimensions [][]string
		metrics    []json.RawMessage
	)
	for name, into := range map[string]any{"Namespace": &namespace, "Dimensions": &dimensions, "Metrics": &metrics} {
		if err := json.Unmarshal(parts[name], into); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	if !regexp.MustCompile(`^[0-9A-Za-z.\-_/#:]{1,255}$`).MatchString(namespace) || strings.HasPrefix(namespace, "AWS/") {
		return fmt.Errorf("namespace %q", namespace)
	}
	if len(dimensions) == 0 {
		return fmt.Errorf("no set of dimensions, not even an empty one")
	}
	for _, set := range dimensions {
		if len(set) > 9 { // 30 by now
			return fmt.Errorf("%d dimensions", len(set))
		}
		for _, name := range set {
			var value string
			if err := json.Unmarshal(root[name], &value); err != nil {
				return fmt.Errorf("dimension %s is %s: %w", name, root[name], err)
			}
			if !printable(name, 255) || strings.HasPrefix(name, ":") || !printable(value, 1024) {
				return fmt.Errorf("dimension %q is %q", name, value)
			}
		}
	}
	if len(metrics) == 0 || len(metrics) > 100 {
		return fmt.Errorf("%d metrics", len(metrics))
	}
	seen := map[string]bool{}
	for _, metric := range metrics {
		name, err := checkMetric(metric, root)
		if err != nil {
			return err
		}
		if seen[name] {
			return fmt.Errorf("metric %s is defined twice", name)
		}
		seen[name] = true
	}
	return nil
}

var units = strings.Fields(`Seconds Microseconds Milliseconds Bytes Kilobytes Megabytes Gigabytes Terabytes Bits Kilobits
	Megabits Gigabits Terabits Percent Count Bytes/Second Kilobytes/Second Megabytes/Second Gigabytes/Second Terabytes/Second
	Bits/Second Kilobits/Second Megabits/Second Gigabits/Second Terabits/Second Count/Second None`)

func checkMetric(metric json.RawMessage, root map[string]json.RawMessage) (name string, err error) {
	parts, err := members(metric, "Name", "Unit")
	if err != nil {
		return "", fmt.Errorf("metric: %w", err)
	}
	var unit string
	if err := json.Unmarshal(parts["Name"], &name); err != nil || !printable(name, 255) {
		return "", fmt.Errorf("name %s of a metric: %v", parts["Name"], err)
	}
	if err := json.Unmarshal(parts["Unit"], &unit); err != nil || !slices.Contains(units, unit) {
		return "", fmt.Errorf("unit %s of %s: %v", parts["Unit"], name, err)
	}
	var value *float64
	if err := json.Unmarshal(root[name], &value); err != nil || value == nil || math.Abs(*value) > math.Exp2(360) {
		return "", fmt.Errorf("%s is %s: %v", name, root[name], err)
	}
	return name, nil
}

// printable text is what CloudWatch takes for a name or a dimension's value.
func printable(text string, most int) bool {
	return len(text) <= most && strings.TrimSpace(text) != "" && !strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r > '~' })
}

// members reads an object, which has exactly these members if any are named,
// and no member twice.
func members(object []byte, names ...string) (map[string]json.RawMessage, error) {
	decoder := json.NewDecoder(bytes.NewReader(object))
	if opening, err := decoder.Token(); err != nil || opening != json.Delim('{') {
		return nil, fmt.Errorf("%q is no object: %v", object, err)
	}
	found := map[string]json.RawMessage{}
	for decoder.More() {
		name, err := decoder.Token()
		if err != nil {
			return nil, err
		}
		var value json.RawMessage
		if err := decoder.Decode(&value); err != nil {
			return nil, err
		}
		if _, twice := found[name.(string)]; twice {
			return nil, fmt.Errorf("member %q is there twice", name)
		}
		found[name.(string)] = value
	}
	if _, err := decoder.Token(); err != nil {
		return nil, err
	}
	if _, err := decoder.Token(); err != io.EOF {
		return nil, fmt.Errorf("something follows the object: %v", err)
	}
	for _, name := range names {
		if found[name] == nil {
			return nil, fmt.Errorf("member %q is missing", name)
		}
	}
	if len(names) > 0 && len(found) != len(names) {
		return nil, fmt.Errorf("%d members instead of %v", len(found), names)
	}
	return found, nil
}
