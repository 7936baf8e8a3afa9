package ledger

import (
	"bytes"
	"crypto/md5"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"
)

// encode writes rows as one segment.
func encode(t testing.TB, blockRows int, rows ...Row) []byte {
	t.Helper()
	var body bytes.Buffer
	w, err := newSegmentWriter(&body, blockRows)
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range rows {
		r := record{key: []byte(row.Key), tag: parseTag(row.ETag), size: row.Size, outcome: row.Outcome,
			attempts: row.Attempts, commit: newCommitMark(row.Run, row.At, row.Settings)}
		if err := w.add(&r); err != nil {
			t.Fatal(err)
		}
	}
	stats, err := w.close()
	if err != nil {
		t.Fatal(err)
	}
	if stats.bytes != int64(body.Len()) || stats.rows != int64(len(rows)) {
		t.Fatalf("the writer says %+v, and wrote %d bytes of %d rows", stats, body.Len(), len(rows))
	}
	return body.Bytes()
}

// decode reads a segment to its end.
func decode(src io.Reader) ([]Row, error) {
	s := newSegmentReader(src, "the segment", newUnpackers())
	var rows []Row
	for {
		var r record
		more, err := s.next(&r)
		if err != nil || !more {
			return rows, err
		}
		rows = append(rows, r.row())
	}
}

func md5Tag(n int) string { return fmt.Sprintf("%q", fmt.Sprintf("%x", md5.Sum(fmt.Append(nil, n)))) }

// sampleRows are rows as they come in practice, and as they should not.
func sampleRows() []Row {
	at := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	rows := []Row{
		{Key: "\x01control", ETag: "", Size: 0, Outcome: Done, Run: "r1"},
		{Key: "/leading", ETag: `"d41d8cd98f00b204e9800998ecf8427e"`, Outcome: Done, Run: "r1", At: at},
		{Key: "a", ETag: "d41d8cd98f00b204e9800998ecf8427e", Size: 1, Outcome: Failed, Attempts: 1, Run: "r2", At: at},
		{Key: "a//b", ETag: `"D41D8CD98F00B204E9800998ECF8427E"`, Size: math.MaxInt64, Outcome: Quarantined, Attempts: 3, Run: "r2", At: at},
		{Key: "a/b", ETag: `"d41d8cd98f00b204e9800998ecf8427e-12"`, Size: 5 << 40, Outcome: Done, Run: "r1", At: at},
		{Key: "a/b.", ETag: "d41d8cd98f00b204e9800998ecf8427e-4294967295", Outcome: Done, Run: "r3", At: at.Add(time.Hour)},
		{Key: "a/b.c d+e%#?\n", ETag: `"d41d8cd98f00b204e9800998ecf8427e-012"`, Outcome: Done, Run: "r3", At: time.Unix(-5, 0).UTC()},
		{Key: "a/b.gone", Outcome: gone, Run: "r3", At: at},
		{Key: "aa", ETag: `W/"weak"`, Outcome: Done, Run: "r3", At: at},
		{Key: "aaa", ETag: "\x00\xff", Outcome: Done, Run: strings.Repeat("r", maxRunBytes), At: at},
		{Key: "aaaa", ETag: strings.Repeat("e", maxTagBytes), Outcome: Done, Run: "r3", At: at},
		{Key: "emoji/😀.csv", ETag: `""`, Outcome: Done, Run: "r3", At: at},
		{Key: strings.Repeat("k", maxKeyBytes), ETag: `"`, Outcome: Done, Run: "r3", At: at},
	}
	for i := range 40 {
		rows = append(rows, Row{Key: fmt.Sprintf("z/events-%06d.csv.gz", i), ETag: md5Tag(i), Size: int64(i * 1000), Outcome: Done, Run: "r4", At: at})
	}
	return rows
}

func TestSegmentGivesRowsBackExactly(t *testing.T) {
	rows := sampleRows()
	for _, blockRows := range []int{1, 2, 7, 4096} {
		body := encode(t, blockRows, rows...)
		for name, src := range map[string]io.Reader{
			"whole": bytes.NewReader(body), "byte by byte": iotest.OneByteReader(bytes.NewReader(body)),
			"with its end": iotest.DataErrReader(bytes.NewReader(body)),
		} {
			got, err := decode(src)
			if err != nil {
				t.Fatalf("blocks of %d, %s: %v", blockRows, name, err)
			}
			if !slices.Equal(got, rows) {
				t.Errorf("blocks of %d, %s: rows differ:\n got %+v\nwant %+v", blockRows, name, got, rows)
			}
		}
	}
}

func TestSegmentIsTheSameBytesForTheSameRows(t *testing.T) {
	rows := sampleRows()
	if !bytes.Equal(encode(t, 5, rows...), encode(t, 5, rows...)) {
		t.Error("two writers made two segments of the same rows: a retry would not rewrite the same object")
	}
}

func TestCutSegmentIsDamaged(t *testing.T) {
	body := encode(t, 4, sampleRows()...)
	for n := range body {
		_, err := decode(bytes.NewReader(body[:n]))
		wantDamaged(t, fmt.Sprintf("cut after %d of %d bytes", n, len(body)), err)
	}
	_, err := decode(bytes.NewReader(append(slices.Clone(body), 0)))
	wantDamaged(t, "one byte too many", err)
}

func TestFlippedBitAnywhereIsDamaged(t *testing.T) {
	rows := sampleRows()
	body := encode(t, 4, rows...)
	for i := range body {
		broken := slices.Clone(body)
		broken[i] ^= 1 << (i % 8)
		got, err := decode(bytes.NewReader(broken))
		if err == nil && slices.Equal(got, rows) {
			t.Errorf("bit flipped in byte %d of %d: not noticed", i, len(body))
			continue
		}
		wantDamaged(t, fmt.Sprintf("bit flipped in byte %d of %d", i, len(body)), err)
	}
}

func TestLostOrSwappedBlockIsDamaged(t *testing.T) {
	body := encode(t, 1, Row{Key: "a", Outcome: Done, Run: "r"}, Row{Key: "b", Outcome: Done, Run: "r"}, Row{Key: "c", Outcome: Done, Run: "r"})
	frame := func(b []byte) int {
		return frameHeader + int(uint32(b[5])|uint32(b[6])<<8)
	}
	one := len(segmentMagic)
	two := one + frame(body[one:])
	three := two + frame(body[two:])
	rest := three + frame(body[three:])
	cases := map[string][]byte{
		"middle block lost": slices.Concat(body[:two], body[three:]),
		"last block lost":   slices.Concat(body[:three], body[rest:]),
		"blocks swapped":    slices.Concat(body[:one], body[two:three], body[one:two], body[three:]),
		"block twice":       slices.Concat(body[:two], body[one:two], body[two:]),
	}
	for name, broken := range cases {
		_, err := decode(bytes.NewReader(broken))
		wantDamaged(t, name, err)
	}
}

// A segment whose checksums are right and whose parts contradict each other.
func TestIndexAndFooterThatContradictTheBlocksAreDamage(t *testing.T) {
	for name, lie := range map[string]func(w *segmentWriter){
		"index counts one block more": func(w *segmentWriter) { w.index.blocks++ },
		"index misses an entry":       func(w *segmentWriter) { w.index.entries = w.index.entries[:len(w.index.entries)-1] },
		"index ends with another key": func(w *segmentWriter) { w.last = []byte("zzz") },
		"footer counts another row":   func(w *segmentWriter) { w.stats.rows++ },
		"footer counts another mark":  func(w *segmentWriter) { w.stats.gone++ },
		"index is elsewhere":          func(w *segmentWriter) { w.stats.bytes++ },
	} {
		var body bytes.Buffer
		w, err := newSegmentWriter(&body, 1)
		if err != nil {
			t.Fatal(err)
		}
		for _, key := range []string{"a", "b"} {
			if err := w.add(&record{key: []byte(key), outcome: Done}); err != nil {
				t.Fatal(err)
			}
		}
		lie(w)
		if _, err := w.close(); err != nil {
			t.Fatal(err)
		}
		_, err = decode(&body)
		wantDamaged(t, name, err)
	}
}

// A block whose header and columns disagree, as no writer writes it.
func TestBlockThatDoesNotAddUpIsRefused(t *testing.T) {
	w, err := newBlockWriter()
	if err != nil {
		t.Fatal(err)
	}
	b := &blockReader{unpackers: newUnpackers()}
	build := func(rows, size int, sums ...byte) []byte {
		for _, key := range []string{"a", "b"} {
			if err := w.add(&record{key: []byte(key), tag: parseTag(md5Tag(1)), outcome: Done}); err != nil {
				t.Fatal(err)
			}
		}
		payload := w.finish() // begins with three bytes: rows, raw, and packed length
		payload[0] += byte(rows)
		payload[1] += byte(size)
		return append(payload, sums...)
	}
	read := func(payload []byte) error {
		*b = blockReader{unpackers: b.unpackers}
		if err := b.load(payload); err != nil {
			return err
		}
		for b.left > 0 {
			if err := b.next(&record{}); err != nil {
				return err
			}
		}
		return nil
	}
	if err := read(build(0, 0)); err != nil {
		t.Fatalf("a good block: %v", err)
	}
	for name, payload := range map[string][]byte{
		"a row more": build(1, 0), "a row less": build(-1, 0), "a byte more": build(0, 1), "a byte less": build(0, -1),
		"an ETag too many": build(0, 0, make([]byte, 16)...), "rows 0": build(-2, 0), "nothing": nil,
	} {
		if read(payload) == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestCutConnectionIsNotDamage(t *testing.T) {
	body := encode(t, 4, sampleRows()...)
	cause := errors.New("connection reset")
	_, err := decode(io.MultiReader(bytes.NewReader(body[:len(body)/2]), iotest.ErrReader(cause)))
	if !errors.Is(err, cause) || errors.Is(err, ErrDamaged) {
		t.Errorf("got %v, want the connection's error and no word of damage", err)
	}
	_, err = decode(cutReader{io.MultiReader(bytes.NewReader(body[:len(body)/2]), iotest.ErrReader(io.ErrUnexpectedEOF))})
	if !errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, ErrDamaged) {
		t.Errorf("got %v, want a cut connection and no word of damage", err)
	}
}

func TestWriterRefusesDisorder(t *testing.T) {
	for _, second := range []string{"b", "a", ""} {
		w, err := newSegmentWriter(io.Discard, 10)
		if err != nil {
			t.Fatal(err)
		}
		if err := w.add(&record{key: []byte("b"), outcome: Done}); err != nil {
			t.Fatal(err)
		}
		if w.add(&record{key: []byte(second), outcome: Done}) == nil {
			t.Errorf("key %q was accepted after \"b\"", second)
		}
	}
}

func TestReaderRefusesDisorder(t *testing.T) {
	for _, blockRows := range []int{1, 2} {
		for _, second := range []string{"b", "a"} {
			var body bytes.Buffer
			w, err := newSegmentWriter(&body, blockRows)
			if err != nil {
				t.Fatal(err)
			}
			for _, key := range []string{"b", second} {
				w.last = nil // the writer forgets what it refuses by
				if err := w.add(&record{key: []byte(key), outcome: Done}); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := w.close(); err != nil {
				t.Fatal(err)
			}
			_, err = decode(&body)
			wantDamaged(t, fmt.Sprintf("%q after \"b\", %d rows a block", second, blockRows), err)
		}
	}
}

func TestTagsComeBackExactlyAndCompactly(t *testing.T) {
	hex := "0123456789abcdef0123456789abcdef"
	for etag, form := range map[string]tagForm{
		"": tagEmpty, hex: tagBare, `"` + hex + `"`: tagQuoted, hex + "-1": tagBareParts, `"` + hex + `-10000"`: tagQuotedParts,
		hex + "-0": tagBareParts, hex + "-01": tagOther, hex + "-": tagOther, hex + "-+1": tagOther, hex + "-4294967296": tagOther,
		hex + "x": tagOther, hex[1:]: tagOther, `"` + hex: tagOther, hex + `"`: tagOther, `""`: tagOther, `"`: tagOther,
		strings.ToUpper(hex): tagOther, hex[:31] + "g": tagOther, `W/"` + hex + `"`: tagOther, `""` + hex + `""`: tagOther,
	} {
		got := parseTag(etag)
		if got.form != form || got.String() != etag {
			t.Errorf("%q: form %d and %q, want form %d and the same", etag, got.form, got, form)
		}
	}
}

func FuzzTag(f *testing.F) {
	f.Add(`"d41d8cd98f00b204e9800998ecf8427e-12"`)
	f.Add("d41d8cd98f00b204e9800998ecf8427e")
	f.Fuzz(func(t *testing.T, etag string) {
		if got := parseTag(etag).String(); got != etag {
			t.Errorf("%q came back as %q", etag, got)
		}
	})
}

// FuzzSegmentReader: whatever the bytes, the reader ends with a valid segment
// (and the rows in it survive being written again) or with damage.
func FuzzSegmentReader(f *testing.F) {
	f.Add(encode(f, 4, sampleRows()...))
	f.Add(encode(f, 4096, sampleRows()...))
	f.Add([]byte(segmentMagic))
	f.Fuzz(func(t *testing.T, body []byte) {
		rows, err := decode(bytes.NewReader(body))
		if err != nil {
			wantDamaged(t, "fuzzed", err)
			return
		}
		again, err := decode(bytes.NewReader(encode(t, 4, rows...)))
		if err != nil || !slices.Equal(rows, again) {
			t.Errorf("rows of a valid segment do not survive: %v", err)
		}
	})
}

// FuzzBlock reaches the column decoder, which checksums shield in a segment.
func FuzzBlock(f *testing.F) {
	w, err := newBlockWriter()
	if err != nil {
		f.Fatal(err)
	}
	for _, row := range sampleRows() {
		r := record{key: []byte(row.Key), tag: parseTag(row.ETag), size: row.Size, outcome: row.Outcome, commit: newCommitMark(row.Run, row.At, row.Settings)}
		if err := w.add(&r); err != nil {
			f.Fatal(err)
		}
	}
	payload := w.finish()
	u, err := newUnpackers().block()
	if err != nil {
		f.Fatal(err)
	}
	_, rest, _ := takeUvarint(payload)
	_, rest, _ = takeUvarint(rest)
	packed, rest, _ := takeUvarint(rest)
	raw, err := u.DecodeAll(rest[:packed], nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(uint16(len(sampleRows())), raw, rest[packed:])
	f.Fuzz(func(t *testing.T, rows uint16, raw, sums []byte) {
		b := &blockReader{unpackers: newUnpackers()}
		packed := w.packer.EncodeAll(raw, nil)
		payload := appendUvarints(nil, uint64(rows), uint64(len(raw)), uint64(len(packed)))
		if b.load(slices.Concat(payload, packed, sums)) != nil {
			return
		}
		for n := 0; b.left > 0; n++ {
			var r record
			if err := b.next(&r); err != nil {
				return
			}
			if n >= int(rows) || len(r.key) == 0 || len(r.key) > maxKeyBytes || r.size < 0 || r.attempts < 0 {
				t.Fatalf("row %d of %d: %+v", n, rows, r)
			}
		}
	})
}

func TestDamagedErrorNamesTheObject(t *testing.T) {
	_, err := decode(strings.NewReader("no segment at all"))
	wantDamaged(t, "text", err)
	if !strings.Contains(err.Error(), "the segment") {
		t.Errorf("%q does not name the segment", err)
	}
}

func wantDamaged(t *testing.T, what string, err error) {
	t.Helper()
	var damaged *DamagedError
	if !errors.As(err, &damaged) || !errors.Is(err, ErrDamaged) || damaged.Object == "" {
		t.Errorf("%s: got %v, want damage that names the object", what, err)
	}
}

func BenchmarkSegmentBytesPerRow(b *testing.B) {
	random := rand.New(rand.NewPCG(1, 2))
	const n = 100_000
	rows := make([]Row, n)
	for i := range rows {
		etag := fmt.Sprintf("\"%016x%016x\"", random.Uint64(), random.Uint64())
		// 1,000 files a day, 50 kB to 5 MB.
		rows[i] = Row{Key: fmt.Sprintf("incoming/2026/%02d/%02d/events-%06d.csv.gz", i/30_000+1, i/1000%30+1, i%1000),
			ETag: etag, Size: 50_000 + random.Int64N(5_000_000), Outcome: Done, Run: fmt.Sprintf("run-2026-01-31T%04d", i/1000)}
	}
	var body []byte
	for b.Loop() {
		body = encode(b, 4096, rows...)
	}
	b.ReportMetric(float64(len(body))/n, "bytes/row")
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/row")
}

func appendUvarints(b []byte, values ...uint64) []byte {
	for _, v := range values {
		b = binary.AppendUvarint(b, v)
	}
	return b
}
