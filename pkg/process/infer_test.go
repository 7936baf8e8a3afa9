package process

import (
	"math"
	"slices"
	"strconv"
	"testing"
)

func TestTypesThatAValueCouldBe(t *testing.T) {
	tests := []struct {
		text string
		want types
	}{
		{"0", integer | double}, {"-1", integer | double}, {"42", integer | double},
		{"9007199254740992", integer | double}, {"9007199254740993", integer},
		{"9223372036854775807", integer}, {"-9223372036854775808", integer | double},
		{"9223372036854775808", 0}, {"18446744073709551616", 0}, {"1e19", double},
		{"-0", double}, {"00", 0}, {"007", 0}, {"-07", 0}, {"+1", 0}, {"1 ", 0}, {" 1", 0}, {"1_000", 0}, {"1,5", 0}, {"0x1F", 0}, {"-", 0},

		{"0.0", double}, {"-0.0", double}, {".5", double}, {"5.", double}, {".", 0}, {"-.", 0}, {"00.5", 0}, {"1.2.3", 0},
		{"1e5", double}, {"1E+5", double}, {"1e-5", double}, {"1e", 0}, {"e5", 0}, {"1e5.0", 0},
		{"1e308", double}, {"1.7976931348623157e308", double}, {"1e309", 0}, {"-1e309", 0},
		{"5e-324", double}, {"1e-324", 0}, {"1e-400", 0}, {"0e999", double},
		{"0.1", double}, {"0.10", double}, {"0.30000000000000004", double}, {"0.10000000000000001", double},
		{"3.14159265358979323846", 0}, {"0.12345678901234568", double}, {"0.12345678901234567", 0},
		{"0.1000000000000000055511151231257827021181583404541015625", double},
		{"NaN", 0}, {"nan", 0}, {"Inf", 0}, {"-inf", 0}, {"Infinity", 0}, {"null", 0}, {"NA", 0}, {"None", 0}, {"x", 0},

		{"true", boolean}, {"False", boolean}, {"TRUE", boolean}, {"tRUE", 0}, {"yes", 0}, {"t", 0},

		{"2024-02-29", date}, {"2023-02-29", 0}, {"2024-04-31", 0}, {"2024-13-01", 0}, {"2024-00-01", 0}, {"2024-01-00", 0},
		{"0001-01-01", date}, {"0000-01-01", 0}, {"9999-12-31", date}, {"2024-1-1", 0}, {"2024/01/01", 0}, {"20240101", integer | double}, {"2024-01-01 ", 0},

		{"2024-01-01T00:00:00Z", instant}, {"2024-01-01 00:00:00Z", instant}, {"2024-01-01t23:59:59z", instant},
		{"2024-01-01T00:00:00.123456+05:30", instant}, {"2024-01-01T00:00:00.1234567Z", 0}, {"2024-01-01T00:00:00.Z", 0},
		{"2024-01-01T24:00:00Z", 0}, {"2024-01-01T00:60:00Z", 0}, {"2024-01-01T23:59:60Z", 0},
		{"2024-01-01T00:00:00+0530", 0}, {"2024-01-01T00:00:00+24:00", 0}, {"2024-01-01T00:00:00 UTC", 0},
		{"0001-01-01T00:00:00+01:00", 0}, {"9999-12-31T23:59:59-00:01", 0}, {"2023-02-29T00:00:00Z", 0},
		{"2024-01-01 00:00:00", local}, {"2024-01-01T00:00:00.5", local}, {"2024-01-01 00:00", 0}, {"2024-01-01_00:00:00", 0},
	}
	for _, test := range tests {
		if got := typesOf(cell{kind: textKind, text: []byte(test.text)}, anyType); got != test.want {
			t.Errorf("%q: types %06b, want %06b", test.text, got, test.want)
		}
	}
}

func TestValues(t *testing.T) {
	for text, want := range map[string]int64{
		"1970-01-01 00:00:00":              0,
		"1969-12-31 23:59:59.999999":       -1,
		"1970-01-01T01:00:00.5+01:00":      500_000,
		"1969-12-31T23:00:00-01:00":        0,
		"2024-02-29T12:34:56.000001-00:30": 1709211896000001,
	} {
		if got, _, ok := timestampOf([]byte(text)); !ok || got != want {
			t.Errorf("%s: %d, %v, want %d", text, got, ok, want)
		}
	}
	for text, want := range map[string]int32{"1970-01-01": 0, "1969-12-31": -1, "0001-01-01": -719162, "9999-12-31": 2932896} {
		if got, ok := dateOf([]byte(text)); !ok || got != want {
			t.Errorf("%s: %d, %v, want %d", text, got, ok, want)
		}
	}
}

func TestColumnNames(t *testing.T) {
	tests := []struct{ source, want []string }{
		{[]string{"a", "b"}, []string{"a", "b"}},
		{[]string{"a", "a", "a"}, []string{"a", "a_2", "a_3"}},
		{[]string{"a", "a", "a_2"}, []string{"a", "a_3", "a_2"}},
		{[]string{"", "", "column_1"}, []string{"column_1_2", "column_2", "column_1"}},
		{[]string{" ", "A", "a"}, []string{" ", "A", "a"}},
	}
	for _, test := range tests {
		if got := columnNames(test.source); !slices.Equal(got, test.want) {
			t.Errorf("%q became %q, want %q", test.source, got, test.want)
		}
	}
	many := columnNames(make([]string, maxColumns))
	slices.Sort(many)
	if len(slices.Compact(many)) != maxColumns {
		t.Error("names are not unique")
	}
}

// Whatever is taken as a double prints as a number equal to the text, digit by
// digit; what a program prints for a double is always taken.
func FuzzDouble(f *testing.F) {
	for _, seed := range []string{"0.1", "1e308", "3.14159265358979323846", "-0", "00.1", "5e-324", "9007199254740993"} {
		f.Add(seed, 0.1)
	}
	f.Fuzz(func(t *testing.T, text string, number float64) {
		if got, ok := doubleOf([]byte(text)); ok {
			want, err := strconv.ParseFloat(text, 64)
			if err != nil || got != want || math.IsInf(got, 0) || math.IsNaN(got) {
				t.Errorf("%q became %v, want %v (%v)", text, got, want, err)
			}
		}
		if math.IsNaN(number) || math.IsInf(number, 0) {
			return
		}
		for _, format := range []byte{'e', 'g'} {
			printed := strconv.FormatFloat(number, format, -1, 64)
			got, ok := doubleOf([]byte(printed))
			_, whole := integerOf([]byte(printed))
			if !ok && !whole && !isLongWhole(printed) || ok && math.Float64bits(got) != math.Float64bits(number) {
				t.Errorf("%s became %v, %v", printed, got, ok)
			}
		}
	})
}

// isLongWhole: 'g' prints some numbers above int64 without an exponent.
func isLongWhole(text string) bool {
	digits, ok := significantDigits([]byte(text))
	return ok && len(digits) > 18
}
