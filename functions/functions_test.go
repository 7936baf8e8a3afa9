package functions

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-pipeline/lockstep/internal/step"
	"github.com/lockstep-pipeline/lockstep/pkg/lease"
)

func TestEveryFolderIsAFunctionAndTheOtherWayRound(t *testing.T) {
	mains, err := filepath.Glob("*/main.go")
	if err != nil {
		t.Fatal(err)
	}
	var folders []string
	for _, main := range mains {
		folder := filepath.Dir(main)
		folders = append(folders, folder)
		text, err := os.ReadFile(main)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(text), `functions.Start("`+folder+`")`) {
			t.Errorf("%s does not start %s", main, folder)
		}
	}
	if names := slices.Sorted(slices.Values(Names)); !slices.Equal(names, folders) {
		t.Errorf("the functions are %v, the folders %v", names, folders)
	}
}

// alone keeps the SDK from this machine's own settings.
func alone(t *testing.T) {
	t.Helper()
	for name, value := range map[string]string{
		"AWS_REGION": "us-east-1", "AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test",
		"AWS_CONFIG_FILE": os.DevNull, "AWS_SHARED_CREDENTIALS_FILE": os.DevNull,
	} {
		t.Setenv(name, value)
	}
}

func TestEveryNameHasAHandlerAndNoOther(t *testing.T) {
	alone(t)
	for _, name := range Names {
		if _, err := newHandler(t.Context(), name); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := newHandler(t.Context(), "procces"); err == nil || !strings.Contains(err.Error(), "acquire, discover, process, commit, release") {
		t.Errorf("%v", err)
	}
}

func TestAWrongEnvironmentIsRefusedByName(t *testing.T) {
	for name, value := range map[string]string{
		envPathStyle: "yes", envRequesterPays: "on", envProbe: "2", envNoMetrics: "off", envEncryption: "rot13", envChecksum: "MD4",
	} {
		t.Run(name, func(t *testing.T) {
			alone(t)
			t.Setenv(name, value)
			_, err := newHandler(t.Context(), "acquire")
			if err == nil || !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), value) {
				t.Errorf("%v", err)
			}
		})
	}
}

func TestTruth(t *testing.T) {
	for text, want := range map[string]bool{"": false, "true": true, "1": true, "TRUE": true, "false": false, "0": false} {
		t.Setenv(envPathStyle, text)
		if got, err := truth(envPathStyle); got != want || err != nil {
			t.Errorf("%q is %t, %v", text, got, err)
		}
	}
	if err := os.Unsetenv(envPathStyle); err != nil {
		t.Fatal(err)
	}
	if got, err := truth(envPathStyle); got || err != nil {
		t.Errorf("nothing is %t, %v", got, err)
	}
}

func TestALogLineHasTheMembersThatLambdaReads(t *testing.T) {
	var line bytes.Buffer
	newLog(&line, "commit").Warn("not merged", "run", "P1")
	var got struct {
		Timestamp                     time.Time
		Level, Message, Function, Run string
	}
	if err := json.Unmarshal(line.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if got.Timestamp.IsZero() || got.Level != "WARN" || got.Message != "not merged" || got.Function != "commit" || got.Run != "P1" {
		t.Errorf("%s", line.String())
	}
}

func TestAHandlerAnswersWithItsOutput(t *testing.T) {
	handler := handle(func(_ context.Context, in step.CommitInput) (step.CommitOutput, error) {
		return step.CommitOutput{Done: in.Token}, nil
	})
	out, err := handler(t.Context(), json.RawMessage(`{"token": 7}`))
	if err != nil || out.Done != 7 {
		t.Errorf("%+v, %v", out, err)
	}
}

func TestAnInputOfAnotherShapeIsRefused(t *testing.T) {
	handler := handle(func(context.Context, step.ProcessInput) (step.ProcessOutput, error) {
		t.Error("the step was called")
		return step.ProcessOutput{}, nil
	})
	for _, input := range []string{``, `{`, `[]`, `"x"`, `{"token": "7"}`, `{"execution": {"startTime": "yesterday"}}`, `{"batch": {"files": 1}}`} {
		_, err := handler(t.Context(), json.RawMessage(input))
		if _, named := err.(*step.InvalidInputError); !named {
			t.Errorf("%s: %T %v", input, err, err)
		}
	}
}

// The runtime reports the outermost type, so nothing may be wrapped round it.
func TestAHandlersErrorHasItsNameOutermost(t *testing.T) {
	handler := handle(func(context.Context, step.AcquireInput) (step.AcquireOutput, error) {
		return step.AcquireOutput{}, errors.Join(errors.New("on the way"), lease.ErrLost)
	})
	out, err := handler(t.Context(), json.RawMessage(`{}`))
	if _, named := err.(*step.LeaseLostError); !named || out != nil {
		t.Errorf("%+v, %T %v", out, err, err)
	}
}
