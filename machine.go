// Package lockstep carries the files that every part of the project speaks of,
// so that a command built from here needs no file beside it.
package lockstep

import _ "embed"

// Definition is statemachine.asl.json as it stands: Amazon States Language
// with ${…} in place of the names that a deployment fills in.
//
//go:embed statemachine.asl.json
var Definition []byte

// ScheduleEvent is events/schedule.json: the input of a scheduled run.
//
//go:embed events/schedule.json
var ScheduleEvent []byte
