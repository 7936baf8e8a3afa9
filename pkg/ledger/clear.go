package ledger

import (
	"context"
	"time"

	"github.com/lockstep-pipeline/lockstep/pkg/bucket"
)

// When a segment's object goes:
//
//   - Merged segments are retired: the head lists them with the time, for
//     readers that began with an older head. A merge deletes those that have
//     been retired for readerGrace, then drops them from the list; a crash in
//     between deletes again.
//   - Segments that no head ever named are left by a commit that crashed, was
//     fenced, or came second. A merge lists the folder and deletes what no head
//     names and is older than orphanAge: far longer than a commit can take
//     between writing its segment and swapping the head.
//
// Names carry a generation and their content, so a deleted name never comes
// back. Both ages are by the server's clock on both ends.
const (
	readerGrace = time.Hour
	orphanAge   = 24 * time.Hour
)

// clear deletes what is due, and returns the retired names that are deleted.
func (l *Ledger) clear(ctx context.Context, v version) (map[string]bool, error) {
	cleared := map[string]bool{}
	for _, r := range v.Retired {
		if v.now.Sub(r.Since) <= readerGrace {
			continue
		}
		if err := l.store.Delete(ctx, l.prefix+r.Name); err != nil {
			return nil, err
		}
		cleared[r.Name] = true
	}
	return cleared, l.clearOrphans(ctx, v)
}

func (l *Ledger) clearOrphans(ctx context.Context, v version) error {
	needed := v.names()
	for page, err := range l.store.List(ctx, bucket.ListOptions{Prefix: l.prefix + "segments/"}) {
		if err != nil {
			return err
		}
		for _, e := range page.Entries {
			name := e.Key[len(l.prefix):]
			// A store that tells no times keeps its orphans.
			old := !e.LastModified.IsZero() && page.ServerTime.Sub(e.LastModified) > orphanAge
			s, ours := parseSegmentName(name)
			if needed[name] || !old || !ours || s.generation > v.Generation {
				continue // what is ahead of the head may prove that the head is an older one
			}
			if err := l.store.Delete(ctx, e.Key); err != nil {
				return err
			}
		}
	}
	return nil
}
