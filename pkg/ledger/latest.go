package ledger

import (
	"context"
	"encoding/binary"
	"errors"
	"iter"
	"strings"
	"time"
)

// Latest yields, in key order, the last of the rows with each key. They may be
// more than memory holds: most of them wait in the directory for temporary
// files. It ends with the first error among rows.
func Latest(ctx context.Context, rows iter.Seq2[Row, error]) iter.Seq2[Row, error] {
	return func(yield func(Row, error) bool) {
		sorted := newSorter(ctx, packTold, unpackTold, laterFirst)
		defer sorted.close()
		number := uint64(0)
		for row, err := range rows {
			if err == nil {
				number++
				err = sorted.add(ctx, told{row, number})
			}
			if err != nil {
				yield(Row{}, err)
				return
			}
		}
		last := ""
		err := sorted.each(func(t told) error {
			if t.Key == last {
				return nil
			}
			last = t.Key
			if !yield(t.Row, nil) {
				return errStopped
			}
			return nil
		})
		if err != nil && err != errStopped {
			yield(Row{}, err)
		}
	}
}

var errStopped = errors.New("the reader of the rows stopped")

// told is a row, and when it was told.
type told struct {
	Row
	number uint64
}

func laterFirst(a, b told) int {
	if c := strings.Compare(a.Key, b.Key); c != 0 {
		return c
	}
	if a.number > b.number {
		return -1
	}
	return 1
}

func packTold(t told) []byte {
	b := make([]byte, 0, len(t.Key)+len(t.Run)+80)
	b = packText(b, t.Key)
	b = packText(b, t.ETag)
	b = binary.AppendUvarint(b, uint64(t.Size))
	b = packText(b, string(t.Outcome))
	b = binary.AppendUvarint(b, uint64(t.Attempts))
	b = packText(b, t.Run)
	b = binary.AppendUvarint(b, t.number)
	return binary.AppendVarint(b, newCommitMark("", t.At).at)
}

func unpackTold(b []byte) (told, error) {
	u := unpacking{left: b}
	t := told{Row: Row{Key: string(u.bytes()), ETag: string(u.bytes()), Size: int64(u.number())}}
	t.Outcome, t.Attempts = Outcome(u.bytes()), int(u.number())
	t.Run = string(u.bytes())
	t.number = u.number()
	at, n := binary.Varint(u.left)
	if n <= 0 {
		return told{}, errPacking
	}
	if at != 0 {
		t.At = time.Unix(at, 0).UTC()
	}
	return t, u.err
}
