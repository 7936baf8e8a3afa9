package asl

import "github.com/lockstep-pipeline/lockstep/internal/asl/payload"

// context is the context object, $$, as the current state sees it.
func (c *chain) context() map[string]any {
	e := c.exec
	object := map[string]any{
		"Execution": map[string]any{
			"Id":           e.arn,
			"Input":        e.input.value,
			"Name":         e.name,
			"RoleArn":      e.m.cfg.RoleARN,
			"StartTime":    timestamp(e.start),
			"RedriveCount": payload.Integer(0),
		},
		"StateMachine": map[string]any{"Id": e.machineARN, "Name": e.machineName},
	}
	state := map[string]any{"Name": c.state.name, "EnteredTime": timestamp(c.entered.Timestamp)}
	if c.retries != nil {
		state["RetryCount"] = payload.Integer(int64(*c.retries))
	}
	object["State"] = state
	if c.mapItem != nil {
		object["Map"] = map[string]any{"Item": c.mapItem}
	}
	return object
}

// item is the Map.Item of the context object.
func item(index int, value any) map[string]any {
	return map[string]any{"Index": payload.Integer(int64(index)), "Value": value}
}
