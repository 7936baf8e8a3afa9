package process

import (
	"bytes"
	"encoding/json"
	"io"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/parquet-go/parquet-go"
)

// Records, blank lines and broken lines together are the whole text.
func FuzzCSVScannerTilesTheText(f *testing.F) {
	for _, seed := range []string{
		"a,b\n1,2\n", "a\r\n\r\n\"x\r\ny\"\r\n", "\"a\nb\"c\n\"d", "a\rb\r", "\"\"\"\n\"\"\n\"", ",,\n,\"", "a\r\r\nb\r",
	} {
		f.Add(seed, byte(','), false)
		f.Add(seed, byte(';'), true)
	}
	f.Fuzz(func(t *testing.T, text string, comma byte, cr bool) {
		if comma == '"' || comma == '\n' || comma == '\r' {
			return
		}
		d := dialect{comma: comma, lineEnd: '\n'}
		if cr {
			d.lineEnd = '\r'
		}
		section := io.NewSectionReader(strings.NewReader(text), 0, int64(len(text)))
		scanner, err := newCSVScanner(section, d, len(text)+1)
		if err != nil {
			t.Fatal(err)
		}
		var all strings.Builder
		line := int64(0)
		for {
			record, err := scanner.next()
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			if record.line <= line {
				t.Fatalf("line %d after line %d", record.line, line)
			}
			line = record.line
			all.Write(record.raw)
		}
		withoutEnds := strings.NewReplacer("\r", "", "\n", "")
		if got, want := withoutEnds.Replace(all.String()), withoutEnds.Replace(text); got != want {
			t.Errorf("records hold %q\nthe text %q", got, want)
		}
	})
}

// What the standard library decodes without a replacement character, we decode
// to the same; members are as many as the text has.
func FuzzMembers(f *testing.F) {
	for _, seed := range []string{`{}`, `{"a":1,"b":[{"c":"]"}],"d":"\u00fc\"","e":null}`, ` { "a" : { } , "b" : -1.5e3 } `, `{"a":"\ud83d\ude00"}`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		object := strings.Trim(text, jsonSpace)
		if rejectReason([]byte(object+" ")) != "" { // the space: also for no text at all
			return
		}
		var want map[string]any
		decoder := json.NewDecoder(strings.NewReader(object))
		decoder.UseNumber()
		if err := decoder.Decode(&want); err != nil {
			t.Fatal(err)
		}
		got := map[string]any{}
		for key, value := range members([]byte(object)) {
			name, whole := unquote(key)
			c, wholeValue := cellOf(value)
			if !whole || !wholeValue {
				return
			}
			var v any
			switch c.kind {
			case stringKind:
				v = string(c.text)
			case numberKind:
				v = json.Number(c.text)
			case boolKind, nestedKind:
				decoder := json.NewDecoder(strings.NewReader(string(c.text)))
				decoder.UseNumber()
				if err := decoder.Decode(&v); err != nil {
					t.Fatalf("%s: %v", c.text, err)
				}
			}
			got[name] = v
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s\ngot  %v\nwant %v", object, got, want)
		}
	})
}

// Any bytes under any name end in an error or in an output that has a row for
// every record that is not among the rejected ones, with text columns unchanged.
func FuzzNothingIsLost(f *testing.F) {
	keys := []string{"a.csv", "a.tsv", "a.json", "a.ndjson", "a.csv.gz", "a.csv.zst"}
	for i, seed := range []string{
		"a,b\n1,2\n3\n", "a\tb\n\"x\ny\"\t2\n", `[{"a":1},{"a":"x","b":{}},3]`, "{\"a\":1}\n{\"a\":\n", gz(f, "a\n1\n"), zst(f, "a\n1\n"),
		"\xff\xfea\x00\n\x001\x00", "sep=;\na;b\n1;2",
	} {
		f.Add(seed, i%len(keys))
	}
	f.Fuzz(func(t *testing.T, text string, key int) {
		if key < 0 || key >= len(keys) {
			return
		}
		outcome, out, err := run(t, keys[key], text, Config{MaxBytes: 1 << 20, MaxRecordBytes: 1 << 16})
		if err != nil {
			return
		}
		rejected := out.content[RejectedName]
		if n := int64(strings.Count(string(rejected), "\n")); n != outcome.Rejected {
			t.Errorf("%d rejected, %d kept", outcome.Rejected, n)
		}
		if len(out.names) == 0 {
			return
		}
		shown := show(t, out.content[OutputName])
		if !utf8.ValidString(shown) {
			t.Errorf("no UTF-8 in %q", shown)
		}
		if keys[key] == "a.csv" {
			assertEveryRecord(t, text, outcome, out.content[OutputName])
		}
	})
}

// assertEveryRecord compares the output with the records of its source, value
// by value.
func assertEveryRecord(t *testing.T, text string, outcome Outcome, content []byte) {
	t.Helper()
	spooled := spoolOf(t, text)
	d, err := sniffDialect(spooled, ',')
	if err != nil {
		t.Fatal(err)
	}
	records, err := newCSVRecords(spooled.section(spooled.size), d, 1<<16)
	if err != nil {
		t.Fatal(err)
	}
	output, err := parquet.OpenFile(bytes.NewReader(content), int64(len(content)))
	if err != nil {
		t.Fatal(err)
	}
	fields, rows := output.Schema().Fields(), readRows(t, output)
	read := int64(0)
	for ; ; read++ {
		record, err := records.next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if record.reason != "" {
			continue
		}
		if len(rows) == 0 {
			t.Fatalf("no row for record %d", record.number)
		}
		for i, value := range rows[0] {
			source := string(record.cells[i].text)
			typ := typeName(fields[i].Type())
			got := value.String()
			switch {
			case value.IsNull():
				got = ""
			case typ == "STRING":
				got = string(value.ByteArray())
			case typ != "INT64": // other types have many ways to write a value
				continue
			}
			if got != source || value.IsNull() != (source == "" && (typ != "STRING" || record.cells[i].kind == nullKind)) {
				t.Errorf("record %d, column %d (%s): %q became %q", record.number, i, typ, source, got)
			}
		}
		rows = rows[1:]
	}
	if len(rows) > 0 || outcome.Rows+outcome.Rejected != read {
		t.Errorf("%d rows too many; %+v for %d records", len(rows), outcome, read)
	}
}

func spoolOf(t *testing.T, text string) *spool {
	t.Helper()
	temp := &scratch{dir: t.TempDir()}
	t.Cleanup(temp.close)
	p, err := NewParquet(Config{})
	if err != nil {
		t.Fatal(err)
	}
	spooled, err := p.spoolText(t.Context(), File{Body: strings.NewReader(text)}, plain, temp)
	if err != nil {
		t.Fatal(err)
	}
	return spooled
}
