package stack

import (
	"fmt"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awscloudwatch"
	"github.com/aws/aws-cdk-go/awscdk/v2/interfaces/interfacesawscloudwatch"
	"github.com/aws/jsii-runtime-go"

	"github.com/lockstep-pipeline/lockstep/infra/settings"
	"github.com/lockstep-pipeline/lockstep/internal/step"
)

// addDashboard answers, from the top: is anything wrong? Then, a row for each
// pipeline: is it late, did runs succeed, what became of the files, how long
// did runs wait for each other?
func (b *builder) addDashboard(alarms []awscloudwatch.Alarm) awscloudwatch.Dashboard {
	dashboard := awscloudwatch.NewDashboard(b.stack, jsii.String("Dashboard"), &awscloudwatch.DashboardProps{
		DashboardName:   &b.settings.StackName,
		DefaultInterval: awscdk.Duration_Hours(jsii.Number(12)),
	})
	fixID(dashboard, "Dashboard")
	if len(alarms) > 0 {
		refs := make([]interfacesawscloudwatch.IAlarmRef, len(alarms))
		for i, a := range alarms {
			refs[i] = a
		}
		dashboard.AddWidgets(awscloudwatch.NewAlarmStatusWidget(&awscloudwatch.AlarmStatusWidgetProps{
			Title: jsii.String("Is anything wrong?"), Alarms: &refs, Width: jsii.Number(24), Height: jsii.Number(2 + (len(alarms)+5)/6),
			SortBy: awscloudwatch.AlarmStatusWidgetSortBy_STATE_UPDATED_TIMESTAMP,
		}))
	}
	for p := range b.eachPipeline {
		dashboard.AddWidgets(awscloudwatch.NewTextWidget(&awscloudwatch.TextWidgetProps{
			Markdown: jsii.String(fmt.Sprintf("## %s\n[executions](%s) · %s · from `s3://%s/%s`", p.Name, b.machineURL(p), p.Schedule.Expression,
				b.bucketName(p.Config.Source.Bucket), p.Config.Source.Prefix)),
			Width: jsii.Number(24), Height: jsii.Number(2), Background: awscloudwatch.TextWidgetBackground_TRANSPARENT,
		}))
		dashboard.AddWidgets(b.pipelineRow(p)...)
	}
	return dashboard
}

func (b *builder) pipelineRow(p *settings.Pipeline) []awscloudwatch.IWidget {
	graph := func(title, axis string, stacked bool, metrics ...awscloudwatch.IMetric) awscloudwatch.IWidget {
		return awscloudwatch.NewGraphWidget(&awscloudwatch.GraphWidgetProps{
			Title: &title, Width: jsii.Number(5), Height: jsii.Number(6), Stacked: &stacked, Left: &metrics,
			LeftYAxis: &awscloudwatch.YAxisProps{Min: jsii.Number(0), Label: &axis, ShowUnits: jsii.Bool(false)},
		})
	}
	return []awscloudwatch.IWidget{
		awscloudwatch.NewSingleValueWidget(&awscloudwatch.SingleValueWidgetProps{
			Title: jsii.String("Now"), Width: jsii.Number(4), Height: jsii.Number(6), Sparkline: jsii.Bool(true),
			Metrics: &[]awscloudwatch.IMetric{
				metric(p, step.OldestUnprocessedAgeSeconds, "Maximum", "oldest file waits (s)"),
				metric(p, step.QuarantineSize, "Maximum", "in quarantine"),
			},
		}),
		graph("Runs", "runs", true,
			b.executions(p, "ExecutionsSucceeded", "succeeded"),
			b.executions(p, "ExecutionsFailed", "failed"),
			b.executions(p, "ExecutionsTimedOut", "timed out"),
			b.executions(p, "ExecutionsAborted", "aborted"),
			metric(p, step.RunsSuperseded, "Sum", "of the succeeded: superseded")),
		graph("Files", "files", false,
			metric(p, step.FilesNew, "Sum", "new"),
			metric(p, step.FilesDone, "Sum", "done"),
			metric(p, step.FilesFailed, "Sum", "failed"),
			metric(p, step.FilesQuarantined, "Sum", "into quarantine")),
		graph("Lock", "seconds", false,
			metric(p, step.LockHeldSeconds, "Maximum", "held"),
			metric(p, step.LockWaitSeconds, "Maximum", "waited for"),
			metric(p, step.LockTakeovers, "Sum", "takeovers (count)")),
		awscloudwatch.NewGraphWidget(&awscloudwatch.GraphWidgetProps{
			Title: jsii.String("Volume"), Width: jsii.Number(5), Height: jsii.Number(6),
			Left:       &[]awscloudwatch.IMetric{metric(p, step.Rows, "Sum", "rows"), metric(p, step.LedgerRows, "Maximum", "ledger rows")},
			Right:      &[]awscloudwatch.IMetric{metric(p, step.Bytes, "Sum", "bytes read"), metric(p, step.LedgerBytes, "Maximum", "ledger bytes")},
			LeftYAxis:  &awscloudwatch.YAxisProps{Min: jsii.Number(0), Label: jsii.String("rows"), ShowUnits: jsii.Bool(false)},
			RightYAxis: &awscloudwatch.YAxisProps{Min: jsii.Number(0), Label: jsii.String("bytes"), ShowUnits: jsii.Bool(false)},
		}),
	}
}
