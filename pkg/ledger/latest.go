package ledger

import (
	"context"
	"encoding/binary"
	"errors"
	"iter"
	"strings"
	"time"
)

// Latest yields, in key order, the last of the rows with each key, with what
// earlier ones published where it says nothing. They may be
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
		var latest Row
		open, ended := false, false // a row waits for what older ones say; its older ones say no more
		err := sorted.each(func(t told) error {
			if open && t.Key == latest.Key {
				if latest.Published == (Published{}) && !ended {
					latest.Published, ended = t.Published, t.Outcome == gone
				}
				return nil
			}
			if open && !yield(latest, nil) {
				open = false
				return errStopped
			}
			latest, open, ended = t.Row, true, false
			return nil
		})
		switch {
		case err == errStopped:
		case err != nil:
			yield(Row{}, err)
		case open:
			yield(latest, nil)
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
	b = packText(b, t.Settings)
	b = append(b, packBool(t.Suspect))
	b = packText(b, t.Published.ETag)
	b = binary.AppendUvarint(b, uint64(t.Published.Token))
	b = packText(b, t.Published.Name)
	b = binary.AppendUvarint(b, t.number)
	return binary.AppendVarint(b, newCommitMark("", t.At, "").at)
}

func unpackTold(b []byte) (told, error) {
	u := unpacking{left: b}
	t := told{Row: Row{Key: string(u.bytes()), ETag: string(u.bytes()), Size: int64(u.number())}}
	t.Outcome, t.Attempts = Outcome(u.bytes()), int(u.number())
	t.Run = string(u.bytes())
	t.Settings = string(u.bytes())
	t.Suspect = u.number() == 1
	t.Published.ETag, t.Published.Token, t.Published.Name = string(u.bytes()), int64(u.number()), string(u.bytes())
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
