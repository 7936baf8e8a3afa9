package scale

import (
	"encoding/hex"
	"fmt"
	"sort"
	"strings"
	"time"

	"github.com/lockstep-pipeline/lockstep/pkg/ledger"
)

const (
	sourcePrefix = "incoming/" // of all files
	perDay       = 9600        // files; one hundred a quarter of an hour
)

var firstDay = time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)

// files is a source of any size that nobody stores: everything about its i-th
// file follows from i, and the order of the keys is that of the numbers.
type files struct {
	count int
	days  []string // "2024/01/31"
}

func newFiles(count int) files {
	f := files{count: count}
	for day := 0; day*perDay < count; day++ {
		f.days = append(f.days, firstDay.AddDate(0, 0, day).Format("2006/01/02"))
	}
	return f
}

// appendKey appends a key such as incoming/2024/01/31/events-001234.csv.gz.
func (f files) appendKey(b []byte, i int) []byte { return f.appendName(b, i/perDay, i%perDay) }

func (f files) appendName(b []byte, day, number int) []byte {
	b = append(b, sourcePrefix...)
	b = append(b, f.days[day]...)
	b = append(b, "/events-"...)
	b = appendDigits(b, number, 6)
	return append(b, ".csv.gz"...)
}

func (f files) key(i int) string { return string(f.appendKey(nil, i)) }

// appendDigits appends n with leading zeros.
func appendDigits(b []byte, n, width int) []byte {
	at := len(b)
	for range width {
		b = append(b, '0')
	}
	for i := at + width - 1; i >= at && n > 0; i-- {
		b[i] = byte('0' + n%10)
		n /= 10
	}
	return b
}

// search returns the first file for which is holds, which must hold for all
// files after it.
func (f files) search(is func(key string) bool) int {
	return sort.Search(f.count, func(i int) bool { return is(f.key(i)) })
}

// below returns the files whose keys begin with prefix: from, up to to.
func (f files) below(prefix string) (from, to int) {
	from = f.search(func(key string) bool { return key >= prefix })
	to = f.search(func(key string) bool { return key > prefix && !strings.HasPrefix(key, prefix) })
	return from, to
}

// after returns the first file whose key is greater than this one.
func (f files) after(key string) int { return f.search(func(k string) bool { return k > key }) }

// mix makes a number unpredictable for a packer, and the same each time.
// It is the finalizer of SplitMix64.
func mix(n uint64) uint64 {
	n += 0x9e3779b97f4a7c15
	n = (n ^ n>>30) * 0xbf58476d1ce4e5b9
	n = (n ^ n>>27) * 0x94d049bb133111eb
	return n ^ n>>31
}

// appendTag appends what looks like an MD5, without quotes.
func appendTag(b []byte, i int) []byte {
	high, low := mix(2*uint64(i)), mix(2*uint64(i)+1)
	var sum [16]byte
	for at := range 8 {
		sum[at], sum[8+at] = byte(high>>(8*at)), byte(low>>(8*at))
	}
	return hex.AppendEncode(b, sum[:])
}

func tagOf(i int) string { return `"` + string(appendTag(nil, i)) + `"` }

// sizeOf is from 10 kB to 5 MB.
func sizeOf(i int) int64 { return 10_000 + int64(mix(uint64(i)<<20)%5_000_000) }

// modifiedAt spreads a day's files over it. Milliseconds are not kept by S3.
func (f files) appendModified(b []byte, i int) []byte {
	day := f.days[i/perDay]
	b = append(b, day[:4]...)
	b = append(b, '-')
	b = append(b, day[5:7]...)
	b = append(b, '-')
	b = append(b, day[8:]...)
	second := i % perDay * 86_400 / perDay
	b = append(b, 'T')
	b = appendDigits(b, second/3600, 2)
	b = append(b, ':')
	b = appendDigits(b, second/60%60, 2)
	b = append(b, ':')
	b = appendDigits(b, second%60, 2)
	return append(b, ".000Z"...)
}

// done is the row of the i-th file.
func (f files) done(i int) ledger.Row {
	return ledger.Row{Key: f.key(i), ETag: tagOf(i), Size: sizeOf(i), Outcome: ledger.Done}
}

// late is the row of a file that the source does not have yet: the n-th of
// those that arrive later, each day in turn. So a thousand of them lie all over
// the ledger.
func (f files) late(n int) ledger.Row {
	day := n % len(f.days)
	key := f.appendName(nil, day, perDay+n/len(f.days))
	return ledger.Row{Key: string(key), ETag: tagOf(f.count + n), Size: sizeOf(f.count + n), Outcome: ledger.Done}
}

// season says which of the files are in the ledger: all but fresh ones, which
// are spread evenly over the keys.
type season struct {
	files
	fresh int
}

// newSeason has known files in the ledger and fresh ones that are not.
func newSeason(known, fresh int) season { return season{newFiles(known + fresh), fresh} }

func (s season) isFresh(i int) bool { return i%(s.count/s.fresh) == 7 && i/(s.count/s.fresh) < s.fresh }

// freshKeys are the keys that a discovery must take.
func (s season) freshKeys() []string {
	keys := make([]string, s.fresh)
	for n := range keys {
		keys[n] = s.key(n*(s.count/s.fresh) + 7)
	}
	return keys
}

// bucketOf names the bucket that has these files: the server makes it up from
// the name. A page has so many keys at most and takes so long, and more than
// limit requests at a time are refused with SlowDown; 0 is no limit.
func (f files) bucketOf(keys int, takes time.Duration, limit int) string {
	return fmt.Sprintf("files-%d-%dkeys-%dms-max%d", f.count, keys, takes.Milliseconds(), limit)
}
