package demo

import (
	"fmt"
	"strings"
	"time"

	"github.com/lockstep-pipeline/lockstep/internal/asl"
)

// leg is one visit to a state.
type leg struct {
	at    time.Time
	run   int // in the report's order
	state string
}

// journey lists the states of a history. The turns of a waiting run are one
// leg that tells how many there were.
func journey(events []asl.Event) []leg {
	var legs []leg
	turns := 0
	for _, event := range events {
		if !strings.HasSuffix(string(event.Type), "StateEntered") {
			continue
		}
		state := event.State()
		switch {
		case state == "WaitForLock":
			if turns++; turns > 1 {
				legs[len(legs)-1].state = fmt.Sprintf("WaitForLock (%d turns)", turns)
				continue
			}
		case turns > 0 && (state == "AcquireLock" || state == "LockDecision"):
			continue
		}
		legs = append(legs, leg{at: event.Timestamp, state: state})
	}
	return legs
}
