package process

import (
	"strings"
	"testing"
)

func TestDelimitedText(t *testing.T) {
	const utc, clock = "TIMESTAMP(utc=true,unit=MICROS)", "TIMESTAMP(utc=false,unit=MICROS)"
	tests := []struct {
		name, key, text string
		want            string
		rejected        string
	}{
		{"header only", "a.csv", "a,b\n",
			lines("a STRING, b STRING"), ""},
		{"header without a line end", "a.csv", "a,b",
			lines("a STRING, b STRING"), ""},
		{"all types", "a.csv", lines(
			"i,d,b,day,instant,clock,s",
			"1,0.5,true,2024-02-29,2024-01-02T03:04:05.678Z,2024-01-02 03:04:05,x",
			"-20,1e308,FALSE,0001-01-01,2024-01-02T03:04:05+02:00,2024-01-02T03:04:05.000001,y"),
			lines("i INT64, d DOUBLE, b BOOLEAN, day DATE, instant "+utc+", clock "+clock+", s STRING",
				`1, 0.5, true, 2024-02-29, 2024-01-02T03:04:05.678Z, 2024-01-02T03:04:05, "x"`,
				`-20, 1e+308, false, 0001-01-01, 2024-01-02T01:04:05Z, 2024-01-02T03:04:05.000001, "y"`), ""},
		{"an integer anywhere in a column of decimals", "a.csv", "a\n1\n2.5\n",
			lines("a DOUBLE", "1", "2.5"), ""},
		{"the last row changes the type", "a.csv", "a\n" + strings.Repeat("1\n", 3) + "x\n",
			lines("a STRING", `"1"`, `"1"`, `"1"`, `"x"`), ""},
		{"leading zeros, and no double to hold it", "a.csv", "zip,big,far,near,plus\n007,9223372036854775808,1e309,0.12345678901234567890,+1\n8,1,1,1,1\n",
			lines("zip STRING, big STRING, far STRING, near STRING, plus STRING",
				`"007", "9223372036854775808", "1e309", "0.12345678901234567890", "+1"`, `"8", "1", "1", "1", "1"`), ""},
		{"words for nothing stay words", "a.csv", "a,b,c,d\n1,NA,None,2\nnull,2,NaN,\n",
			lines("a STRING, b STRING, c STRING, d INT64", `"1", "NA", "None", 2`, `"null", "2", "NaN", null`), ""},
		{"empty fields, quoted and not", "a.csv", "s,n,nothing,empty\n,,,\"\"\n\"\",\"\",,\"\"\nx,1,,\"\"\n",
			lines("s STRING, n INT64, nothing STRING, empty STRING", `null, null, null, ""`, `"", null, null, ""`, `"x", 1, null, ""`), ""},
		{"quotes do not make a string", "a.csv", "a\n\"1\"\n\"2\"\n",
			lines("a INT64", "1", "2"), ""},
		{"a mix of date and timestamp", "a.csv", "a\n2024-01-01\n2024-01-01T00:00:00Z\n",
			lines("a STRING", `"2024-01-01"`, `"2024-01-01T00:00:00Z"`), ""},
		{"a mix of zoned and unzoned", "a.csv", "a\n2024-01-01 00:00:00\n2024-01-01T00:00:00Z\n",
			lines("a STRING", `"2024-01-01 00:00:00"`, `"2024-01-01T00:00:00Z"`), ""},

		{"semicolons", "a.csv", "a;b\n1,5;x\n2,5;y\n",
			lines("a STRING, b STRING", `"1,5", "x"`, `"2,5", "y"`), ""},
		{"tabs in .csv", "a.csv", "a\tb\n1\t2\n", lines("a INT64, b INT64", "1, 2"), ""},
		{"commas in .tsv", "a.tsv", "a,b\n1,2\n", lines("a INT64, b INT64", "1, 2"), ""},
		{"pipes", "a.csv", "a|b\n1|2\n", lines("a INT64, b INT64", "1, 2"), ""},
		{"a tsv of one column with commas", "a.tsv", "name\nx\ny, z\n",
			lines("name STRING", `"x"`, `"y, z"`), ""},
		{"commas although the header has more semicolons", "a.csv", "a,b;c;d\n1,2\n3,4\n",
			lines("a INT64, b;c;d INT64", "1, 2", "3, 4"), ""},
		{"the spreadsheet's separator line", "a.csv", "sep=;\r\na;b,c\r\n1;2\r\n",
			lines("a INT64, b,c INT64", "1, 2"), ""},

		{"quotes", "a.csv", "a,b\n\"x, y\",\"say \"\"hi\"\"\"\n5\" pipe,it's\n",
			lines("a STRING, b STRING", `"x, y", "say \"hi\""`, `"5\" pipe", "it's"`), ""},
		{"line ends inside a field are kept as they are", "a.csv", "a,b\r\n\"x\r\ny\",\"\nz\r\"\r\n",
			lines("a STRING, b STRING", `"x\r\ny", "\nz\r"`), ""},
		{"CRLF, blank lines, and no end", "a.csv", "\r\na,b\r\n\r\n1,2\r\n\r\n3,4",
			lines("a INT64, b INT64", "1, 2", "3, 4"), ""},
		{"lone CR", "a.csv", "a,b\r1,2\r3,\"x\ny\"\r",
			lines("a INT64, b STRING", `1, "2"`, `3, "x\ny"`), ""},
		{"a lone CR inside a line of a file with LF", "a.csv", "a,b\n1,x\ry\n",
			lines("a INT64, b STRING", `1, "x\ry"`), ""},
		{"byte order mark", "a.csv", "\xef\xbb\xbfa,b\n1,2\n", lines("a INT64, b INT64", "1, 2"), ""},
		{"UTF-16, little end first", "a.csv", "\xff\xfea\x00,\x00\xfc\x00\n\x001\x00,\x00\x3d\xd8\x00\xde\n\x00",
			lines("a INT64, ü STRING", `1, "😀"`), ""},
		{"UTF-16, big end first", "a.csv", "\xfe\xff\x00a\x00\n\x001\x00\n", lines("a INT64", "1"), ""},
		{"NUL in a field", "a.csv", "a,b\nx\x00y,1\n", lines("a STRING, b INT64", `"x\x00y", 1`), ""},

		{"names: doubles, empty ones, taken ones", "a.csv", "a,a,,a_2,column_3,\" a\",\"x, y\",A\n1,2,3,4,5,6,7,8\n",
			lines("a INT64, a_3 INT64, column_3_2 INT64, a_2 INT64, column_3 INT64,  a INT64, x, y INT64, A INT64", "1, 2, 3, 4, 5, 6, 7, 8"), ""},

		{"ragged rows", "a.csv", "a,b\n1,2\n3\n4,5,6\n7,8\n",
			lines("a INT64, b INT64", "1, 2", "7, 8"),
			lines(`{"record":2,"line":3,"reason":"its number of fields is 1, the header's is 2","raw":"3"}`,
				`{"record":3,"line":4,"reason":"its number of fields is 3, the header's is 2","raw":"4,5,6"}`)},
		{"a rejected row has no say in the types", "a.csv", "a\n1\nx,y\n2\n",
			lines("a INT64", "1", "2"),
			lines(`{"record":2,"line":3,"reason":"its number of fields is 2, the header's is 1","raw":"x,y"}`)},
		{"text behind a closing quote", "a.csv", "a,b\n\"x\"y,1\nz,2\n",
			lines("a STRING, b INT64", `"z", 2`),
			lines(`{"record":1,"line":2,"reason":"text follows a closing quote (a quote inside a quoted field is written twice)","raw":"\"x\"y,1"}`)},
		{"a quote that is never closed costs one line", "a.csv", "a,b\n1,\"x\n2,y\n3,z\n",
			lines("a INT64, b STRING", `2, "y"`, `3, "z"`),
			lines(`{"record":1,"line":2,"reason":"a quote is opened here and never closed","raw":"1,\"x"}`)},
		{"a stray quote that meets a later one costs one line", "a.csv", "a,b\n1,\"x\n2,y\n3,\"z\"\n4,<\n",
			lines("a INT64, b STRING", `2, "y"`, `3, "z"`, `4, "<"`),
			lines(`{"record":1,"line":2,"reason":"text follows a closing quote (a quote inside a quoted field is written twice)","raw":"1,\"x"}`)},
		{"invalid UTF-8", "a.csv", "a,b\n1,\xff\xfe\n2,ü\n",
			lines("a INT64, b STRING", `2, "ü"`),
			lines(`{"record":1,"line":2,"reason":"it is not valid UTF-8","rawBase64":"MSz//g=="}`)},
		{"half a surrogate pair in UTF-16", "a.csv", "\xfe\xff\x00a\x00\n\xd8\x3d\x00\n\x00x\x00\n",
			lines("a STRING", `"x"`),
			lines(`{"record":1,"line":2,"reason":"it is not valid UTF-8","rawBase64":"7aC9"}`)},
		{"a rejected record counts lines of the file, not records", "a.csv", "a,b\n\"x\ny\",1\n\nz\n",
			lines("a STRING, b INT64", `"x\ny", 1`),
			lines(`{"record":2,"line":5,"reason":"its number of fields is 1, the header's is 2","raw":"z"}`)},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			outcome, out, err := run(t, test.key, test.text, Config{})
			if err != nil {
				t.Fatal(err)
			}
			if got := show(t, out.content[OutputName]); got != test.want {
				t.Errorf("output\n%swant\n%s", got, test.want)
			}
			if got := string(out.content[RejectedName]); got != test.rejected {
				t.Errorf("rejected\n%swant\n%s", got, test.rejected)
			}
			rows, rejected := strings.Count(test.want, "\n")-1, strings.Count(test.rejected, "\n")
			if outcome.Rows != int64(rows) || outcome.Rejected != int64(rejected) {
				t.Errorf("outcome %+v, want %d rows and %d rejected", outcome, rows, rejected)
			}
		})
	}
}

func TestDelimitedTextThatFailsWhole(t *testing.T) {
	tests := []struct {
		name, key, text string
		sentinel        error
		says            string
	}{
		{"no good row", "a.csv", "a,b\n1\n2\n", ErrMalformed, "not one of its 2 records is good; the first, on line 2: its number of fields is 1"},
		{"header with a stray quote", "a.csv", "a,\"b\n1,2\n", ErrMalformed, "its header (line 1) cannot be read"},
		{"header in Latin-1", "a.csv", "a,gr\xf6\xdfe\n1,2\n", ErrMalformed, "is it Latin-1"},
		{"UTF-16 without its mark", "a.csv", "a\x00,\x00b\x00\n\x00", ErrMalformed, "is it UTF-16 without its mark"},
		{"UTF-16 cut in a character", "a.csv", "\xff\xfea\x00\n", ErrMalformed, "half a character"},
		{"UTF-32", "a.csv", "\xff\xfe\x00\x00a\x00\x00\x00", ErrUnsupported, "UTF-32"},
		{"gzip without the extension", "a.csv", "\x1f\x8b\x08\x00", ErrMalformed, "looks like gzip"},
		{"JSON", "a.csv", "[\n {\"a\": 1}]", ErrMalformed, "looks like JSON"},
		{"an error page", "a.csv", "<?xml version=\"1.0\"?><Error/>", ErrMalformed, "looks like XML"},
		{"a spreadsheet", "a.tsv", "PK\x03\x04", ErrMalformed, "spreadsheet"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, _, err := run(t, test.key, test.text, Config{})
			wantError(t, err, test.sentinel, test.says)
		})
	}
}

func TestAColumnMayBeCalledLikeJSON(t *testing.T) {
	_, out, err := run(t, "a.csv", "[unit],{x}\n1,2\n", Config{})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := show(t, out.content[OutputName]), lines("[unit] INT64, {x} INT64", "1, 2"); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
