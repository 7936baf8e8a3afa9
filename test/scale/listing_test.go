package scale

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"
)

// listings answers ListObjectsV2 for buckets of files: their names say how many
// files they have, how many keys a page has, how long it takes, and how many
// requests at a time are allowed (see files.bucketOf). A page is made as it is
// asked for.
//
// It answers as S3 does what this project asks: prefix, start-after,
// continuation tokens, max-keys and encoding-type=url, which changes nothing in
// these keys. Anything else is 501.
type listings struct {
	mu      sync.Mutex
	buckets map[string]*listed
}

// listed is one bucket, and what was asked of it.
type listed struct {
	files
	keys  int // of a page
	takes time.Duration
	limit int

	mu   sync.Mutex
	now  int // requests being answered
	seen listingTally
}

// listingTally counts what was asked of a bucket.
type listingTally struct {
	Pages     int64 // answered
	Keys      int64 // in them
	SlowDowns int64 // refused
	AtOnce    int   // most requests at a time
}

var filesBucket = regexp.MustCompile(`^files-(\d+)-(\d+)keys-(\d+)ms-max(\d+)$`)

func (l *listings) bucket(name string) *listed {
	l.mu.Lock()
	defer l.mu.Unlock()
	if b := l.buckets[name]; b != nil {
		return b
	}
	match := filesBucket.FindStringSubmatch(name)
	if match == nil {
		return nil
	}
	var number [4]int
	for i := range number {
		number[i], _ = strconv.Atoi(match[1+i]) // digits; too many of them are no bucket of ours
	}
	b := &listed{files: newFiles(number[0]), keys: number[1], takes: time.Duration(number[2]) * time.Millisecond, limit: number[3]}
	if l.buckets == nil {
		l.buckets = map[string]*listed{}
	}
	l.buckets[name] = b
	return b
}

// take returns what was counted since it was last called.
func (l *listings) take() map[string]listingTally {
	l.mu.Lock()
	defer l.mu.Unlock()
	seen := map[string]listingTally{}
	for name, b := range l.buckets {
		b.mu.Lock()
		seen[name], b.seen = b.seen, listingTally{}
		b.mu.Unlock()
	}
	return seen
}

var listParameters = map[string]bool{
	"list-type": true, "x-id": true, "prefix": true, "start-after": true,
	"continuation-token": true, "max-keys": true, "encoding-type": true,
}

func (l *listings) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name := strings.Trim(r.URL.Path, "/")
	b, query := l.bucket(name), r.URL.Query()
	switch {
	case b == nil:
		refuse(w, http.StatusNotFound, "NoSuchBucket")
		return
	case r.Method != http.MethodGet || query.Get("list-type") != "2":
		refuse(w, http.StatusNotImplemented, "NotImplemented")
		return
	}
	for parameter := range query {
		if !listParameters[parameter] {
			refuse(w, http.StatusNotImplemented, "NotImplemented")
			return
		}
	}
	ready := time.Now().Add(b.takes)
	if !b.enter() {
		refuse(w, http.StatusServiceUnavailable, "SlowDown")
		return
	}
	defer b.leave()
	from, to := b.below(query.Get("prefix"))
	from = max(from, b.after(query.Get("start-after")))
	token := query.Get("continuation-token")
	if token != "" {
		at, err := strconv.Atoi(strings.TrimPrefix(token, "from-"))
		if err != nil || at < from || at >= to {
			refuse(w, http.StatusBadRequest, "InvalidArgument")
			return
		}
		from = at
	}
	most := b.keys
	if asked := query.Get("max-keys"); asked != "" {
		n, err := strconv.Atoi(asked)
		if err != nil || n < 1 {
			refuse(w, http.StatusBadRequest, "InvalidArgument")
			return
		}
		most = min(most, n)
	}
	page := pages.Get().(*bytes.Buffer)
	defer pages.Put(page)
	page.Reset()
	end := max(from, min(from+most, to))
	b.write(page, name, from, end, end < to)
	b.count(end - from)
	wait := time.NewTimer(time.Until(ready))
	defer wait.Stop()
	select {
	case <-wait.C:
	case <-r.Context().Done():
		return
	}
	w.Header().Set("Content-Type", "application/xml")
	w.Header().Set("Content-Length", strconv.Itoa(page.Len()))
	w.Header().Set("X-Amz-Request-Id", "SCALE")
	_, _ = w.Write(page.Bytes()) // a client that went away
}

func (b *listed) enter() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.limit > 0 && b.now >= b.limit {
		b.seen.SlowDowns++
		return false
	}
	b.now++
	b.seen.AtOnce = max(b.seen.AtOnce, b.now)
	return true
}

func (b *listed) leave() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.now--
}

func (b *listed) count(keys int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.seen.Pages++
	b.seen.Keys += int64(keys)
}

// pages are buffers that a page fits in.
var pages = sync.Pool{New: func() any { return bytes.NewBuffer(make([]byte, 0, 300<<10)) }}

// write appends the page of the files from to end. Nothing here allocates for
// a file: the server has its share of the same cores as the client.
func (b *listed) write(page *bytes.Buffer, name string, from, end int, more bool) {
	fmt.Fprintf(page, `<?xml version="1.0" encoding="UTF-8"?>`+"\n"+
		`<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Name>%s</Name><EncodingType>url</EncodingType>`+
		`<MaxKeys>1000</MaxKeys><KeyCount>%d</KeyCount><IsTruncated>%t</IsTruncated>`, name, end-from, more)
	if more {
		fmt.Fprintf(page, `<NextContinuationToken>from-%d</NextContinuationToken>`, end)
	}
	out := page.AvailableBuffer()
	for i := from; i < end; i++ {
		out = append(out, `<Contents><Key>`...)
		out = b.appendKey(out, i)
		out = append(out, `</Key><LastModified>`...)
		out = b.appendModified(out, i)
		out = append(out, `</LastModified><ETag>&quot;`...)
		out = appendTag(out, i)
		out = append(out, `&quot;</ETag><Size>`...)
		out = strconv.AppendInt(out, sizeOf(i), 10)
		out = append(out, `</Size><StorageClass>STANDARD</StorageClass></Contents>`...)
	}
	page.Write(out)
	page.WriteString(`</ListBucketResult>`)
}

func refuse(w http.ResponseWriter, status int, code string) {
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(status)
	_, _ = fmt.Fprintf(w, `<?xml version="1.0" encoding="UTF-8"?><Error><Code>%s</Code><Message>scale answers %[1]s</Message><RequestId>SCALE</RequestId></Error>`, code)
}

func writeJSON(w http.ResponseWriter, document any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(document) // a client that went away
}
