package s3lock_test

import (
	"errors"
	"testing"
	"time"

	"github.com/lockstep-pipeline/lockstep/pkg/bucket"
	"github.com/lockstep-pipeline/lockstep/pkg/bucket/s3test"
	"github.com/lockstep-pipeline/lockstep/pkg/lease"
	"github.com/lockstep-pipeline/lockstep/pkg/s3lock"
)

// In a bucket that keeps versions a deleted lock leaves a delete marker. S3 takes
// the object for absent; some stores refuse to create it, for ever.
func TestALockBehindADeleteMarkerIsFoundAndRepaired(t *testing.T) {
	for _, refuses := range []bool{false, true} {
		memory := bucket.NewMemory("bucket", nil)
		memory.KeepVersions(refuses)
		wire, err := bucket.New(s3test.New(t, memory).Client(), "bucket", bucket.Options{})
		if err != nil {
			t.Fatal(err)
		}
		register, err := s3lock.New(wire, "lock.json")
		if err != nil {
			t.Fatal(err)
		}
		lock, err := lease.New(register, lease.Config{TTL: time.Minute, Grace: 5 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		before, err := lock.TryAcquire(t.Context(), "p1")
		if err != nil {
			t.Fatal(err)
		}
		if err := memory.Delete(t.Context(), "lock.json"); err != nil {
			t.Fatal(err)
		}
		if status, err := lock.Inspect(t.Context()); err != nil || !status.Deleted || status.Exists {
			t.Errorf("refuses %t: %+v, %v", refuses, status, err)
		}
		if refuses {
			if _, err := lock.TryAcquire(t.Context(), "p2"); !errors.As(err, new(*lease.DeletedError)) {
				t.Errorf("refuses: %v", err)
			}
			if err := lock.Break(t.Context(), lease.BreakRequest{By: "ops", Reason: "deleted"}); err != nil {
				t.Errorf("repair: %v", err)
			}
			if err := lock.Break(t.Context(), lease.BreakRequest{Holder: "p1", By: "ops", Reason: "gone"}); err != nil && !errors.Is(err, lease.ErrNotHeld) {
				t.Errorf("break: %v", err)
			}
		}
		after, err := lock.TryAcquire(t.Context(), "p3")
		if err != nil || after.Token <= before.Token && refuses {
			t.Errorf("refuses %t: token %d after %d, %v", refuses, after.Token, before.Token, err)
		}
	}
}
