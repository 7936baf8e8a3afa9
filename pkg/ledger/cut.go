package ledger

import (
	"math"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"
)

// alphabet is the characters that the listed keys were seen to have. Between
// two keys there are keys without number; most that will be met are written in
// these. Keys that begin with ever new characters are cut less well: a listing
// of them is complete as any other, and takes longer.
type alphabet struct {
	mu    sync.Mutex
	runes []rune // in order, each once
}

// maxAlphabet bounds an alphabet: beyond, a cut is as good as any other.
const maxAlphabet = 4096

func (a *alphabet) learn(key string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, r := range key {
		at, known := slices.BinarySearch(a.runes, r)
		if !known && r != utf8.RuneError && len(a.runes) < maxAlphabet {
			a.runes = slices.Insert(a.runes, at, r)
		}
	}
}

// between returns a string in the middle between after and upTo, if there is
// one of those that the alphabet writes: both are read as fractions, one digit
// a character. An empty upTo is the end of what begins with prefix.
func (a *alphabet) between(after, upTo, prefix string) (string, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	common := prefix
	if upTo != "" {
		common = commonStart(after, upTo)
	}
	if len(a.runes) == 0 || !strings.HasPrefix(after, common) {
		return "", false
	}
	// 0 is the end of a string, so that "a" comes before "aa". The last digit
	// stands for all characters that are yet to come.
	base := float64(len(a.runes) + 2)
	digits := int(math.Log(1<<50) / math.Log(base))
	low, high := a.fraction(after[len(common):], base, digits), 1.0
	if upTo != "" {
		high = a.fraction(upTo[len(common):], base, digits)
	}
	cut := common + a.text((low+high)/2, base, digits)
	return cut, after < cut && (upTo == "" || cut < upTo)
}

// fraction reads the first digits of a text as a number from 0 to 1.
func (a *alphabet) fraction(text string, base float64, digits int) float64 {
	value, weight := 0.0, 1/base
	for _, r := range text {
		if digits--; digits < 0 {
			break
		}
		at, known := slices.BinarySearch(a.runes, r)
		value += weight * float64(at+1)
		if !known { // it comes before that digit, and after all that begins with the one before
			return value
		}
		weight /= base
	}
	return value
}

func (a *alphabet) text(value, base float64, digits int) string {
	var text []rune
	for range digits {
		value *= base
		digit := int(value)
		value -= float64(digit)
		if digit < 1 {
			break
		}
		if digit > len(a.runes) {
			return string(append(text, a.beyond()))
		}
		text = append(text, a.runes[digit-1])
	}
	return string(text)
}

// beyond is the first character after those that were seen.
func (a *alphabet) beyond() rune {
	next := a.runes[len(a.runes)-1] + 1
	if utf8.ValidRune(next) {
		return next
	}
	return '\ue000' // after the surrogates; after the last one of all it is no cut
}

// commonStart is what two strings begin with, in whole characters.
func commonStart(a, b string) string {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	for n > 0 && n < len(a) && !utf8.RuneStart(a[n]) {
		n--
	}
	return a[:n]
}
