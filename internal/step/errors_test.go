package step

import (
	"context"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"testing"

	"github.com/lockstep-pipeline/lockstep/pkg/bucket"
	"github.com/lockstep-pipeline/lockstep/pkg/lease"
	"github.com/lockstep-pipeline/lockstep/pkg/ledger"
	"github.com/lockstep-pipeline/lockstep/pkg/s3lock"
)

// errorName is what the Lambda runtime for Go reports: the name of the
// outermost type.
func errorName(err error) string {
	t := reflect.TypeOf(err)
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t.Name()
}

func TestErrorsGetTheirNames(t *testing.T) {
	named := map[string]bool{}
	for _, c := range []struct {
		err  error
		want string
	}{
		{&InvalidConfigError{Field: "x"}, "InvalidConfigError"},
		{&InvalidInputError{"x"}, "InvalidInputError"},
		{&lease.EndedError{Owner: "x"}, "RunEndedError"},
		{&ledger.IdentityError{}, "PipelineChangedError"},
		{hinderedBy(CauseSource, io.EOF), "SourceUnavailableError"},
		{hinderedBy(CauseDestination, io.EOF), "DestinationUnavailableError"},
		{hinderedBy(CauseDestinationTaken, io.EOF), "DestinationTakenError"},
		{hinderedBy(CauseProcessor, io.EOF), "ProcessorUnavailableError"},
		{hinderedBy(CauseFunction, io.EOF), "ProcessFunctionError"},
		{hinderedBy(CauseTransient, io.EOF), "ThrottledError"},
		{&TooManyFilesFailedError{}, "TooManyFilesFailedError"},
		{ledger.ErrFenced, "LedgerFencedError"},
		{&ledger.FencedError{Token: 1, Seen: 2}, "LedgerFencedError"},
		{lease.ErrLost, "LeaseLostError"},
		{fmt.Errorf("%w: %w", lease.ErrLost, &bucket.CallError{Status: 503}), "LeaseLostError"},
		{s3lock.ErrEndpointRefused, "EndpointRefusedError"},
		{&lease.CorruptError{}, "LockCorruptError"},
		{&bucket.CallError{Status: 503, Code: "SlowDown"}, "TransientError"},
		{&bucket.CallError{Status: 429}, "TransientError"},
		{&bucket.CallError{Status: 409}, "TransientError"},
		{&TransientError{io.ErrUnexpectedEOF}, "TransientError"},
		{lease.ErrUncertain, "TransientError"},
		{context.DeadlineExceeded, "TransientError"},
		{context.Canceled, "StepError"},
		{lease.ErrRefused, "StepError"},
		{&bucket.CallError{Status: 403, Code: "AccessDenied"}, "StepError"},
		{io.ErrUnexpectedEOF, "StepError"},
		{ledger.ErrDamaged, "StepError"},
	} {
		for _, err := range []error{c.err, fmt.Errorf("on the way: %w", c.err), errors.Join(errors.New("beside it"), c.err)} {
			translated := Translate(err)
			if got := errorName(translated); got != c.want {
				t.Errorf("%v is a %s, want %s", err, got, c.want)
			}
			if !errors.Is(translated, c.err) {
				t.Errorf("%v lost its cause", err)
			}
			if translated.Error() == "" {
				t.Errorf("%s says nothing", c.want)
			}
		}
		named[c.want] = true
	}
	for _, name := range ErrorNames {
		if !named[name] {
			t.Errorf("nothing becomes a %s", name)
		}
		delete(named, name)
	}
	if len(named) > 0 {
		t.Errorf("ErrorNames lacks %v", named)
	}
	if Translate(nil) != nil {
		t.Error("no error became one")
	}
	if sorted := slices.Clone(ErrorNames); len(slices.Compact(sorted)) != len(ErrorNames) {
		t.Error("a name is listed twice")
	}
}
