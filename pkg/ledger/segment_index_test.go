package ledger

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/lockstep-pipeline/lockstep/pkg/bucket"
)

// manyBlocks is a ledger of three overlapping segments with many blocks each,
// of which only parts are read at a time.
func manyBlocks(t *testing.T) (*bench, []string) {
	b := newBench(t)
	b.ledger.limits.blockRows, b.ledger.limits.wholeBytes, b.ledger.limits.tailBytes, b.ledger.limits.fetchBytes = 3, 0, 64, 300
	var keys []string
	for run := range 3 {
		var rows []Row
		for i := range 60 {
			key := fmt.Sprintf("in/%05d", i*3+run)
			keys = append(keys, key)
			rows = append(rows, Row{Key: key, ETag: md5Tag(i), Size: int64(i), Outcome: Done})
		}
		mustCommit(t, b.ledger, Commit{Run: fmt.Sprint(run), Token: int64(run + 1), Rows: EachRow(rows)})
	}
	slices.Sort(keys)
	return b, keys
}

func TestAnySpanHasExactlyItsRows(t *testing.T) {
	b, keys := manyBlocks(t)
	r := rand.New(rand.NewPCG(3, 1))
	segments := b.head().Segments
	bound := func() string {
		switch r.IntN(5) {
		case 0:
			return ""
		case 1:
			return fmt.Sprintf("in/%05d~", r.IntN(180))
		}
		return fmt.Sprintf("in/%05d", r.IntN(180))
	}
	for range 500 {
		s := span{after: bound(), upTo: bound()}
		rows := b.ledger.mergeSpan(b.ledger.newIndexes(1), segments, "in/", s)
		got, want := []string{}, []string{}
		for {
			row, err := rows.next(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if row == nil {
				break
			}
			got = append(got, string(row.key))
		}
		for _, k := range keys {
			if k > s.after && !s.ends(k) {
				want = append(want, k)
			}
		}
		if !slices.Equal(got, want) {
			t.Fatalf("span %+v has %q, want %q", s, got, want)
		}
	}
}

// Every byte of a segment is covered by a checksum, whichever part is read.
func TestEveryDamagedByteIsFoundByADiscovery(t *testing.T) {
	b, keys := manyBlocks(t)
	src := &source{keys: keys, pageSize: 50}
	key := "state/ledger/" + b.head().Segments[1].Name
	body := b.read(key)
	for at := range body {
		broken := bytes.Clone(body)
		broken[at] ^= 0x40
		b.overwrite(key, broken)
		whole := int64(at%2) << 20 // every other byte
		b.ledger.limits.wholeBytes = whole
		_, _, err := discoverAll(t.Context(), b.ledger, src, Selection{}, b.clock.now())
		if at < len(segmentMagic) { // says only which version wrote it; Verify reads it
			continue
		}
		var damaged *DamagedError
		if !errors.As(err, &damaged) || damaged.Object != key {
			t.Fatalf("byte %d of %d, read whole up to %d: got %v", at, len(body), whole, err)
		}
	}
	b.overwrite(key, body)
	if _, taken, err := discoverAll(t.Context(), b.ledger, src, Selection{Reprocess: true}, b.clock.now()); err != nil || len(taken) != len(keys) {
		t.Errorf("repaired: took %d, %v", len(taken), err)
	}
}

func TestEndpointWithoutRangesIsNotDamage(t *testing.T) {
	b, keys := manyBlocks(t)
	b.ledger.store = rangeless{b.state}
	_, _, err := discoverAll(t.Context(), b.ledger, &source{keys: keys, pageSize: 50}, Selection{}, b.clock.now())
	if !errors.Is(err, bucket.ErrRange) || errors.Is(err, ErrDamaged) {
		t.Errorf("got %v", err)
	}
}

// A discovery of few files must not read a large ledger.
func TestDiscoveryOfAFolderReadsOnlyItsBlocks(t *testing.T) {
	b, _ := manyBlocks(t)
	reads := 0
	b.state.Fault(func(op, _ string) error {
		if op == "get" {
			reads++
		}
		return nil
	}, nil)
	src := &source{keys: []string{"in/00090"}, pageSize: 10}
	if _, _, err := discoverAll(t.Context(), b.ledger, src, Selection{Prefix: "in/00090"}, b.clock.now()); err != nil {
		t.Fatal(err)
	}
	// The head, and of three segments the end of each, the index (which is longer
	// than the end that was read) and a block.
	if reads > 1+3*3 {
		t.Errorf("%d reads", reads)
	}
}

func FuzzReadIndex(f *testing.F) {
	w, err := newSegmentWriter(&bytes.Buffer{}, 2)
	if err != nil {
		f.Fatal(err)
	}
	var rows int64
	for i := range 9 {
		if err := w.add(&record{key: fmt.Appendf(nil, "in/%d", i), outcome: Done}); err != nil {
			f.Fatal(err)
		}
		rows++
	}
	if err := w.flush(); err != nil {
		f.Fatal(err)
	}
	f.Add(w.index.finish(w.last), w.stats.bytes, rows, w.frames)
	f.Fuzz(func(t *testing.T, raw []byte, at, rows int64, blocks uint32) {
		u := newUnpackers()
		packed := w.block.packer.EncodeAll(raw, appendUvarints(nil, uint64(len(raw))))
		var x segmentIndex
		if x.decode(packed, footer{index: at, rows: rows, blocks: blocks}, u) != nil {
			return
		}
		// What was accepted is in order and adds up.
		offset, sum := int64(len(segmentMagic)), int64(0)
		for i, b := range x.blocks {
			if b.offset != offset || i > 0 && b.first <= x.blocks[i-1].first {
				t.Fatalf("block %d is at %d with key %q", i, b.offset, b.first)
			}
			offset += int64(b.length)
			sum += int64(b.rows)
		}
		if offset != at || sum != rows || x.last < x.blocks[len(x.blocks)-1].first {
			t.Fatalf("accepted %+v of %d bytes, %d rows", x, at, rows)
		}
	})
}

// rangeless answers for a part with something else.
type rangeless struct{ *bucket.Memory }

func (rangeless) GetRange(context.Context, string, bucket.Condition, int64, int64) (*bucket.Object, error) {
	return nil, fmt.Errorf("200 for a range: %w", bucket.ErrRange)
}
