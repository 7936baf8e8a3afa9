package local

import (
	"context"
	"encoding/json"
	"log/slog"
	"time"

	"github.com/google/uuid"

	"github.com/lockstep-pipeline/lockstep/internal/asl"
)

// statusRule is the EventBridge rule that tells a function of executions that
// ended badly. Lambda runs such an event asynchronously: a failed invocation is
// tried again after one minute, and once more after two,
// https://docs.aws.amazon.com/lambda/latest/dg/invocation-async-error-handling.html
type statusRule struct {
	target *pool
	scale  float64 // of the delays
	logger *slog.Logger
}

var retryDelays = []time.Duration{time.Minute, 2 * time.Minute}

// matches tells whether the rule's pattern selects a status.
func (r *statusRule) matches(status asl.Status) bool {
	return status == asl.StatusAborted || status == asl.StatusTimedOut || status == asl.StatusFailed
}

// deliver invokes the target with the event until it succeeds, the attempts
// are used up, or ctx ends.
func (r *statusRule) deliver(ctx context.Context, ended asl.Description) {
	log := r.logger.With("execution", ended.ExecutionARN, "status", ended.Status, "function", r.target.fn.Name)
	payload, err := json.Marshal(statusEvent(ended, uuid.NewString()))
	if err != nil {
		log.Error("status change is not delivered", "error", err)
		return
	}
	for attempt := 0; ; attempt++ {
		inv, err := r.target.invoke(ctx, payload)
		switch {
		case err != nil:
			log.Warn("status change failed", "attempt", attempt+1, "error", err)
		case inv.ErrorType != "":
			log.Warn("status change failed", "attempt", attempt+1, "error", inv.ErrorType, "body", string(inv.Payload))
		default:
			log.Debug("status change delivered", "attempt", attempt+1)
			return
		}
		if attempt == len(retryDelays) {
			log.Error("status change is given up")
			return
		}
		delay := time.NewTimer(time.Duration(float64(retryDelays[attempt]) * r.scale))
		select {
		case <-delay.C:
		case <-ctx.Done():
			delay.Stop()
			log.Warn("status change is given up: the stack is closing")
			return
		}
	}
}

// event is an EventBridge event.
type event struct {
	Version    string       `json:"version"`
	ID         string       `json:"id"`
	DetailType string       `json:"detail-type"`
	Source     string       `json:"source"`
	Account    string       `json:"account"`
	Time       string       `json:"time"`
	Region     string       `json:"region"`
	Resources  []string     `json:"resources"`
	Detail     statusDetail `json:"detail"`
}

// statusDetail is the detail of a "Step Functions Execution Status Change":
// unknown fields are null and dates are epoch milliseconds,
// https://docs.aws.amazon.com/step-functions/latest/dg/eventbridge-integration.html
type statusDetail struct {
	ExecutionARN           string            `json:"executionArn"`
	StateMachineARN        string            `json:"stateMachineArn"`
	Name                   string            `json:"name"`
	Status                 asl.Status        `json:"status"`
	StartDate              int64             `json:"startDate"`
	StopDate               *int64            `json:"stopDate"`
	Input                  string            `json:"input"`
	Output                 *string           `json:"output"`
	StateMachineVersionARN *string           `json:"stateMachineVersionArn"`
	StateMachineAliasARN   *string           `json:"stateMachineAliasArn"`
	RedriveCount           int               `json:"redriveCount"`
	RedriveDate            *int64            `json:"redriveDate"`
	RedriveStatus          asl.RedriveStatus `json:"redriveStatus"`
	RedriveStatusReason    *string           `json:"redriveStatusReason"`
	InputDetails           asl.Inclusion     `json:"inputDetails"`
	OutputDetails          *asl.Inclusion    `json:"outputDetails"`
	Error                  *string           `json:"error"`
	Cause                  *string           `json:"cause"`
}

func statusEvent(d asl.Description, id string) event {
	detail := statusDetail{
		ExecutionARN:    d.ExecutionARN,
		StateMachineARN: d.StateMachineARN,
		Name:            d.Name,
		Status:          d.Status,
		StartDate:       time.Time(d.StartDate).UnixMilli(),
		Input:           d.Input,
		Output:          d.Output,
		RedriveCount:    d.RedriveCount,
		RedriveStatus:   d.RedriveStatus,
		InputDetails:    d.InputDetails,
		OutputDetails:   d.OutputDetails,
		Error:           d.Error,
		Cause:           d.Cause,
	}
	if d.RedriveStatusReason != "" {
		detail.RedriveStatusReason = &d.RedriveStatusReason
	}
	at := time.Time(d.StartDate)
	if d.StopDate != nil {
		at = time.Time(*d.StopDate)
		stop := at.UnixMilli()
		detail.StopDate = &stop
	}
	return event{
		Version:    "0",
		ID:         id,
		DetailType: "Step Functions Execution Status Change",
		Source:     "aws.states",
		Account:    Account,
		Time:       at.UTC().Format(time.RFC3339),
		Region:     Region,
		Resources:  []string{d.ExecutionARN},
		Detail:     detail,
	}
}
