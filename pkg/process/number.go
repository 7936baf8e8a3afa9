package process

import (
	"bytes"
	"strconv"
)

// integerOf reads an int64 that its text says exactly: no sign but a minus, no
// leading zero ("007" is a code, not a number), no "-0".
func integerOf(text []byte) (int64, bool) {
	digits := bytes.TrimPrefix(text, []byte("-"))
	if len(digits) == 0 || len(digits) > 19 || digits[0] == '0' && len(text) > 1 {
		return 0, false
	}
	for _, d := range digits {
		if d < '0' || d > '9' {
			return 0, false
		}
	}
	n, err := strconv.ParseInt(string(text), 10, 64)
	return n, err == nil
}

// maxDigits is the most that the exact value of a double has.
const maxDigits = 767

// doubleOf reads a decimal number that a double holds to every digit written:
// "0.1" and "1e308", but neither "1e309" nor more digits than fit. It takes no
// "+", no leading zeros, no "NaN" and no "Inf".
func doubleOf(text []byte) (float64, bool) {
	digits, ok := significantDigits(text)
	if !ok || len(digits) > maxDigits {
		return 0, false
	}
	f, err := strconv.ParseFloat(string(text), 64)
	if err != nil {
		return 0, false // out of range
	}
	if len(digits) == 0 {
		return f, true // zero
	}
	if len(digits) > 18 && !bytes.ContainsAny(text, ".eE") {
		// A whole number beyond int64 is an identifier rather than a quantity:
		// it stays text even where a double could hold it.
		if _, ok := integerOf(text); !ok {
			return 0, false
		}
	}
	// The double is as good as the text when it prints as the same digits.
	var printed [32]byte
	out := strconv.AppendFloat(printed[:0], f, 'e', len(digits)-1, 64)
	mantissa, _, _ := bytes.Cut(bytes.TrimPrefix(out, []byte("-")), []byte("e"))
	if mantissa[0] != digits[0] {
		return 0, false
	}
	if len(mantissa) > 1 && !bytes.Equal(mantissa[2:], digits[1:]) {
		return 0, false
	}
	return f, true
}

// significantDigits checks the form of a decimal number and gives its digits
// from the first that is not zero; none for zero.
func significantDigits(text []byte) ([]byte, bool) {
	rest := bytes.TrimPrefix(text, []byte("-"))
	whole := leadingDigits(rest)
	rest = rest[len(whole):]
	var fraction []byte
	if len(rest) > 0 && rest[0] == '.' {
		fraction = leadingDigits(rest[1:])
		rest = rest[1+len(fraction):]
	}
	if len(whole)+len(fraction) == 0 || len(whole) > 1 && whole[0] == '0' {
		return nil, false
	}
	if len(rest) > 0 {
		if rest[0] != 'e' && rest[0] != 'E' {
			return nil, false
		}
		rest = rest[1:]
		if len(rest) > 0 && (rest[0] == '+' || rest[0] == '-') {
			rest = rest[1:]
		}
		if len(rest) == 0 || len(leadingDigits(rest)) != len(rest) {
			return nil, false
		}
	}
	digits := whole
	if len(fraction) > 0 {
		digits = append(bytes.Clone(whole), fraction...)
	}
	return bytes.TrimLeft(digits, "0"), true
}

func leadingDigits(b []byte) []byte {
	for i, d := range b {
		if d < '0' || d > '9' {
			return b[:i]
		}
	}
	return b
}
