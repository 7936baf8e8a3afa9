package lease

import (
	"encoding/json"
	"strconv"
	"time"
)

// A document is encoded for every write, and most of it is events. By hand that
// takes a fraction of encoding/json's time, which was a tenth of a whole acquire
// on a server without latency.

func (d document) appendJSON(b []byte) []byte {
	b = appendInt(append(b, `{"schema":`...), d.Schema)
	b = appendInt(append(b, `,"limit":`...), d.Limit)
	b = appendInt(append(b, `,"lastToken":`...), d.LastToken)
	b = appendList(append(b, `,"holders":`...), d.Holders, holder.appendJSON)
	b = appendList(append(b, `,"waiters":`...), d.Waiters, waiter.appendJSON)
	b = appendList(append(b, `,"events":`...), d.Events, Event.appendJSON)
	b = appendString(append(b, `,"nonce":`...), d.Nonce)
	return append(b, "}\n"...)
}

func (h holder) appendJSON(b []byte) []byte {
	b = appendString(append(b, `{"owner":`...), h.Owner)
	b = appendInt(append(b, `,"token":`...), h.Token)
	b = appendTime(append(b, `,"acquired":`...), h.Acquired)
	b = appendTime(append(b, `,"renewed":`...), h.Renewed)
	b = appendInt(append(b, `,"ttlMillis":`...), h.TTL)
	b = appendInt(append(b, `,"graceMillis":`...), h.Grace)
	return append(b, '}')
}

func (w waiter) appendJSON(b []byte) []byte {
	b = appendString(append(b, `{"owner":`...), w.Owner)
	b = appendInt(append(b, `,"priority":`...), w.Priority)
	b = appendTime(append(b, `,"arrived":`...), w.Arrived)
	b = appendTime(append(b, `,"seen":`...), w.Seen)
	b = appendInt(append(b, `,"pollMillis":`...), w.Poll)
	return append(b, '}')
}

func (e Event) appendJSON(b []byte) []byte {
	b = appendTime(append(b, `{"at":`...), e.At)
	b = appendString(append(b, `,"kind":`...), string(e.Kind))
	if e.Owner != "" {
		b = appendString(append(b, `,"owner":`...), e.Owner)
	}
	if e.Token != 0 {
		b = appendInt(append(b, `,"token":`...), e.Token)
	}
	if e.By != "" {
		b = appendString(append(b, `,"by":`...), e.By)
	}
	if e.Reason != "" {
		b = appendString(append(b, `,"reason":`...), e.Reason)
	}
	b = appendString(append(b, `,"write":`...), e.Write)
	return append(b, '}')
}

func appendList[T any](b []byte, list []T, appendItem func(T, []byte) []byte) []byte {
	b = append(b, '[')
	for i, item := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendItem(item, b)
	}
	return append(b, ']')
}

func appendInt[T ~int | ~int64](b []byte, n T) []byte { return strconv.AppendInt(b, int64(n), 10) }

func appendTime(b []byte, t time.Time) []byte {
	return append(t.AppendFormat(append(b, '"'), time.RFC3339Nano), '"')
}

// appendString leaves what has to be escaped to encoding/json.
func appendString(b []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			quoted, _ := json.Marshal(s) // a string always can be
			return append(b, quoted...)
		}
	}
	return append(append(append(b, '"'), s...), '"')
}
