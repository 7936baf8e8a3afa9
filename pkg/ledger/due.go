package ledger

import (
	"cmp"
	"strings"
)

// due is a file that should be processed now.
type due struct {
	Candidate
	kind Kind
}

// Kind is why a file is taken.
type Kind byte

const (
	New         Kind = iota + 1 // the ledger does not know its key
	Changed                     // it knows the key at another version
	Retried                     // this version failed before
	Reprocessed                 // only because the selection says Reprocess
)

// String is the kind as Discovery counts it.
func (k Kind) String() string {
	switch k {
	case New:
		return "new"
	case Changed:
		return "changed"
	case Retried:
		return "retried"
	case Reprocessed:
		return "reprocessed"
	}
	return ""
}

// The orders in which a bounded run may take files. No two files have the same
// key, so each order is total.
func byDueKey(a, b due) int { return strings.Compare(a.Key, b.Key) }

func byAge(a, b due) int {
	return cmp.Or(a.LastModified.Compare(b.LastModified), strings.Compare(a.Key, b.Key))
}
