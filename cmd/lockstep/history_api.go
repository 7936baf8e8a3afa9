package main

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sfn"
	"github.com/aws/aws-sdk-go-v2/service/sfn/types"

	"github.com/lockstep-pipeline/lockstep/internal/asl"
)

// executions reads executions through the API of Step Functions.
type executions struct{ api *sfn.Client }

// pageOfEvents is how many events are asked for at once, the most that the API
// gives; those of a page may have less where their data is large.
const pageOfEvents = 1000

// history yields the events of an execution, the first first.
func (x executions) history(ctx context.Context, execution string) iter.Seq2[asl.Event, error] {
	pages := sfn.NewGetExecutionHistoryPaginator(x.api, &sfn.GetExecutionHistoryInput{
		ExecutionArn: &execution, MaxResults: pageOfEvents,
	})
	return func(yield func(asl.Event, error) bool) {
		for pages.HasMorePages() {
			page, err := pages.NextPage(ctx)
			if err != nil {
				yield(asl.Event{}, err)
				return
			}
			for _, e := range page.Events {
				if event, err := eventOf(e); !yield(event, err) || err != nil {
					return
				}
			}
		}
	}
}

// pageOfNews is how many events are asked for at once while an execution is
// followed.
const pageOfNews = 100

// since returns the events behind the one with that id, in order. They are read
// backwards, so that asking again and again costs a page each time; of a server
// that does not know how, all are read.
func (x executions) since(ctx context.Context, execution string, id int64) ([]asl.Event, error) {
	pages := sfn.NewGetExecutionHistoryPaginator(x.api, &sfn.GetExecutionHistoryInput{
		ExecutionArn: &execution, MaxResults: pageOfNews, ReverseOrder: true,
	})
	var news []asl.Event
	for met := false; !met && pages.HasMorePages(); {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, err
		}
		for _, e := range page.Events {
			if e.Id <= id {
				continue
			}
			event, err := eventOf(e)
			if err != nil {
				return nil, err
			}
			news = append(news, event)
		}
		if n := len(page.Events); n > 0 {
			first, last := page.Events[0].Id, page.Events[n-1].Id
			met = last <= first && last <= id+1
		}
	}
	slices.SortFunc(news, func(a, b asl.Event) int { return cmp.Compare(a.ID, b.ID) })
	return news, nil
}

// past reads all that is shown of an execution.
func (x executions) past(ctx context.Context, execution string) (pastExecution, error) {
	var past pastExecution
	var err error
	if past.Description, err = x.describe(ctx, execution); err != nil {
		return pastExecution{}, err
	}
	for event, err := range x.history(ctx, execution) {
		if err != nil {
			return pastExecution{}, err
		}
		past.Events = append(past.Events, event)
	}
	if past.Status == asl.StatusRunning && ended(past.Events) { // meanwhile
		if past.Description, err = x.describe(ctx, execution); err != nil {
			return pastExecution{}, err
		}
	}
	runs := sfn.NewListMapRunsPaginator(x.api, &sfn.ListMapRunsInput{ExecutionArn: &execution})
	for runs.HasMorePages() {
		page, err := runs.NextPage(ctx)
		if err != nil {
			return pastExecution{}, err
		}
		for _, run := range page.MapRuns {
			m, err := x.mapRun(ctx, run)
			if err != nil {
				return pastExecution{}, err
			}
			past.MapRuns = append(past.MapRuns, m)
		}
	}
	slices.SortStableFunc(past.MapRuns, func(a, b pastMapRun) int {
		return time.Time(a.StartDate).Compare(time.Time(b.StartDate))
	})
	return past, nil
}

// endings are the last events of executions.
var endings = map[asl.EventType]asl.Status{
	asl.ExecutionSucceeded: asl.StatusSucceeded, asl.ExecutionFailed: asl.StatusFailed,
	asl.ExecutionTimedOut: asl.StatusTimedOut, asl.ExecutionAborted: asl.StatusAborted,
}

func ended(events []asl.Event) bool {
	return len(events) > 0 && endings[events[len(events)-1].Type] != ""
}

func (x executions) describe(ctx context.Context, execution string) (asl.Description, error) {
	d, err := x.api.DescribeExecution(ctx, &sfn.DescribeExecutionInput{ExecutionArn: &execution})
	if err != nil {
		return asl.Description{}, err
	}
	return asl.Description{
		ExecutionARN: aws.ToString(d.ExecutionArn), StateMachineARN: aws.ToString(d.StateMachineArn), MapRunARN: aws.ToString(d.MapRunArn),
		Name: aws.ToString(d.Name), Status: asl.Status(d.Status), StartDate: asl.Time(aws.ToTime(d.StartDate)), StopDate: (*asl.Time)(d.StopDate),
		Input: aws.ToString(d.Input), Output: d.Output, Error: d.Error, Cause: d.Cause,
	}, nil
}

func (x executions) mapRun(ctx context.Context, run types.MapRunListItem) (pastMapRun, error) {
	d, err := x.api.DescribeMapRun(ctx, &sfn.DescribeMapRunInput{MapRunArn: run.MapRunArn})
	if err != nil {
		return pastMapRun{}, err
	}
	m := pastMapRun{MapRunDescription: asl.MapRunDescription{
		MapRunARN: aws.ToString(d.MapRunArn), ExecutionARN: aws.ToString(d.ExecutionArn), Status: asl.Status(d.Status),
		StartDate: asl.Time(aws.ToTime(d.StartDate)), StopDate: (*asl.Time)(d.StopDate),
	}}
	counts := map[asl.Status]int64{}
	if c := d.ExecutionCounts; c != nil {
		m.ExecutionCounts = asl.MapRunCounts{
			Pending: int(c.Pending), Running: int(c.Running), Succeeded: int(c.Succeeded), Failed: int(c.Failed),
			TimedOut: int(c.TimedOut), Aborted: int(c.Aborted), Total: int(c.Total),
		}
		counts = map[asl.Status]int64{asl.StatusFailed: c.Failed, asl.StatusTimedOut: c.TimedOut, asl.StatusAborted: c.Aborted, asl.StatusRunning: c.Running}
	}
	for _, status := range notSucceeded {
		if room := mostChildren - len(m.Others); counts[status] > 0 && room > 0 {
			children, err := x.children(ctx, run.MapRunArn, status, room)
			if err != nil {
				return pastMapRun{}, err
			}
			m.Others = append(m.Others, children...)
		}
	}
	return m, nil
}

// children describes children of a Map Run, the first first and so many at
// most. The list comes with the latest first, so it is read to its end.
func (x executions) children(ctx context.Context, run *string, status asl.Status, most int) ([]asl.Description, error) {
	var arns []string
	pages := sfn.NewListExecutionsPaginator(x.api, &sfn.ListExecutionsInput{
		MapRunArn: run, StatusFilter: types.ExecutionStatus(status), MaxResults: pageOfEvents,
	})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, err
		}
		for _, child := range page.Executions {
			arns = append(arns, aws.ToString(child.ExecutionArn))
		}
	}
	slices.Reverse(arns)
	var children []asl.Description
	for _, child := range arns[:min(most, len(arns))] {
		d, err := x.describe(ctx, child)
		if err != nil {
			return nil, fmt.Errorf("child %s: %w", child, err)
		}
		children = append(children, d)
	}
	return children, nil
}

// list yields executions of a state machine, the latest first; status may be
// empty.
func (x executions) list(ctx context.Context, machine string, status asl.Status, most int) ([]asl.Description, error) {
	pages := sfn.NewListExecutionsPaginator(x.api, &sfn.ListExecutionsInput{
		StateMachineArn: &machine, StatusFilter: types.ExecutionStatus(status), MaxResults: int32(min(most, pageOfEvents)),
	})
	var list []asl.Description
	for pages.HasMorePages() && len(list) < most {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, err
		}
		for _, e := range page.Executions[:min(most-len(list), len(page.Executions))] {
			list = append(list, asl.Description{
				ExecutionARN: aws.ToString(e.ExecutionArn), StateMachineARN: aws.ToString(e.StateMachineArn), Name: aws.ToString(e.Name),
				Status: asl.Status(e.Status), StartDate: asl.Time(aws.ToTime(e.StartDate)), StopDate: (*asl.Time)(e.StopDate),
			})
		}
	}
	return list, nil
}
