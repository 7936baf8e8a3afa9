package ledger

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockstep-pipeline/lockstep/pkg/bucket"
)

// Versions are the versions of the ledger's objects, where the bucket keeps them;
// *bucket.Bucket and *bucket.Memory have them.
type Versions interface {
	Versions(ctx context.Context, key string) ([]bucket.Version, error)
	GetVersion(ctx context.Context, key, versionID string) (*bucket.Object, error)
}

// ErrNoVersion: no version of the head is both intact and recent enough.
var ErrNoVersion = errors.New("no version of the ledger's head can be restored")

// Restored says which version of the head is back, or would be.
type Restored struct {
	VersionID    string    `json:"versionId"`
	LastModified time.Time `json:"lastModified"`
	Generation   int64     `json:"generation"` // of that version
	Passed       int       `json:"passed"`     // newer versions that could not be used
	Current      bool      `json:"current"`    // it is the current version: nothing needs to be restored
}

// Restore brings the newest version of the head back that is intact and that no
// segment is ahead of by more than one generation: a new version with the same
// content, in one conditional PUT on what is there now. dry writes nothing.
//
// It does not bring back what runs committed after that version, and so refuses
// any older one.
func (l *Ledger) Restore(ctx context.Context, from Versions, token int64, dry bool) (Restored, error) {
	restored, err := l.restore(ctx, from, token, dry)
	if err != nil {
		return Restored{}, fmt.Errorf("restore ledger: %w", err)
	}
	return restored, nil
}

func (l *Ledger) restore(ctx context.Context, from Versions, token int64, dry bool) (Restored, error) {
	last, err := l.lastGeneration(ctx, 0)
	if err != nil {
		return Restored{}, err
	}
	current, _, err := l.look(ctx)
	if errors.As(err, new(*NewerError)) {
		return Restored{}, err
	}
	versions, err := from.Versions(ctx, l.headKey())
	if err != nil {
		return Restored{}, err
	}
	for passed, v := range versions {
		if v.DeleteMarker {
			continue
		}
		head, err := l.headAt(ctx, from, v.VersionID)
		var damage *DamagedError
		if errors.As(err, &damage) || err == nil && last > head.Generation+1 {
			continue
		}
		if err != nil {
			return Restored{}, err
		}
		found := Restored{VersionID: v.VersionID, LastModified: v.LastModified, Generation: head.Generation, Passed: passed, Current: v.IsLatest}
		if dry || found.Current {
			return found, nil
		}
		head.Generation = max(head.Generation, current.Generation, last) + 1
		head.Token = max(head.Token, token)
		return found, l.put(ctx, current, head)
	}
	return Restored{}, fmt.Errorf("%w: of %d versions none is intact and not older than the segments beside it; write the ledger anew with `lockstep ledger rebuild`", ErrNoVersion, len(versions))
}

func (l *Ledger) headAt(ctx context.Context, from Versions, versionID string) (Head, error) {
	object, err := from.GetVersion(ctx, l.headKey(), versionID)
	if err != nil {
		return Head{}, fmt.Errorf("read a version of the ledger head: %w", err)
	}
	defer object.Body.Close()
	return l.readHead(object.Body)
}
