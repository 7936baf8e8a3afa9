// Package payload is the data layer of the Amazon States Language with the
// JSONPath query language: JSON values, paths, reference paths, payload
// templates, intrinsic functions and the comparisons of Choice rules.
//
// It promises three things. A value keeps the form it was written in: 0 stays
// 0, 0.0 stays 0.0, and an integer of any length stays exact. Whatever can be
// judged without data is judged when a definition is loaded, so that a bad
// path, template or call never waits for a run to be found. And what fails
// later fails with the error name and the sentence that AWS Step Functions
// writes into an execution's history, as a [Failure].
//
// It knows neither states nor events. In particular it does not write the
// "An error occurred while executing the state …" prefix, it does not decide
// which field may hold what (whether ResultPath may be null, say), and it does
// not limit the size of a payload.
//
// # Values
//
// A value is nil, bool, string, [encoding/json.Number], []any or
// map[string]any, as [Decode] returns it; nothing else may be handed in.
// Values are shared and never modified: every function here that changes
// something returns a new value, and callers must do the same. That is why
// there is no deep copy.
//
// # Sources
//
// What AWS does was taken from recorded executions where there are any, then
// from what others measured on AWS and published, then from the Step Functions
// Developer Guide and the states language specification. Comments say
// "recorded", "measured" or "public reports" accordingly; "not recorded" means
// that nobody outside AWS is known to have seen it, and that no machine should
// depend on it.
//
// Paths on AWS show the messages of the Java library Jayway JsonPath. Where
// that library and RFC 9535 disagree, a path is read as the library reads it if
// that is known, and refused otherwise; see [ParsePath].
package payload
