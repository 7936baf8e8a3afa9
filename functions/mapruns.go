package functions

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sfn"
	"github.com/aws/aws-sdk-go-v2/service/sfn/types"
)

// mapRuns looks at the Map Runs of an execution through Step Functions.
type mapRuns struct{ client *sfn.Client }

// AnyRunning is step.MapRuns. A list entry has no status, so each run is
// described; an execution of ours has one, or a few after redrives.
func (m mapRuns) AnyRunning(ctx context.Context, executionARN string) (bool, error) {
	pages := sfn.NewListMapRunsPaginator(m.client, &sfn.ListMapRunsInput{ExecutionArn: aws.String(executionARN)})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return false, err
		}
		for _, run := range page.MapRuns {
			described, err := m.client.DescribeMapRun(ctx, &sfn.DescribeMapRunInput{MapRunArn: run.MapRunArn})
			if err != nil {
				return false, err
			}
			if described.Status == types.MapRunStatusRunning {
				return true, nil
			}
		}
	}
	return false, nil
}
