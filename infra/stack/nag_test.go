package stack_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/jsii-runtime-go"
	"github.com/cdklabs/cdk-nag-go/cdknag/v2"
)

// The rules of cdk-nag's AwsSolutions, each either kept or answered with a reason.
func TestNagFindsNothing(t *testing.T) {
	for name, text := range map[string]string{"shipped": shipped(t), "rich": rich} {
		t.Run(name, func(t *testing.T) {
			// Otherwise a finding ends the synthesis before its report can be read.
			app := newApp(t, map[string]any{"@aws-cdk/core:annotationsInValidationReport": false})
			add(t, app, text)
			awscdk.Aspects_Of(app).Add(cdknag.NewAwsSolutionsChecks(&cdknag.NagPackProps{
				Reports: jsii.Bool(true), ReportFormats: &[]cdknag.NagReportFormat{cdknag.NagReportFormat_JSON},
			}), nil)
			app.Synth(nil)
			reports, err := filepath.Glob(filepath.Join(*app.Outdir(), "AwsSolutions-*-NagReport.json"))
			if err != nil || len(reports) != 1 {
				t.Fatalf("reports are %v: %v", reports, err)
			}
			file, err := os.ReadFile(reports[0])
			if err != nil {
				t.Fatal(err)
			}
			var report struct {
				Lines []struct{ RuleID, ResourceID, Compliance, ExceptionReason string }
			}
			if err := json.Unmarshal(file, &report); err != nil {
				t.Fatal(err)
			}
			kept := 0
			for _, line := range report.Lines {
				switch {
				case line.Compliance == "Compliant":
					kept++
				case line.Compliance != "Suppressed":
					t.Errorf("%s: %s is %s", line.ResourceID, line.RuleID, line.Compliance)
				case len(line.ExceptionReason) < 20:
					t.Errorf("%s: %s is excused by %q", line.ResourceID, line.RuleID, line.ExceptionReason)
				}
			}
			if kept < 10 {
				t.Errorf("only %d rules were looked at", kept)
			}
		})
	}
}
