package ledger

// span is a part of the key space: the keys beyond after, up to and including
// upTo. An empty upTo is no end. Any strings may be bounds, there need not be
// such keys.
type span struct{ after, upTo string }

func (s span) ends(key string) bool { return s.upTo != "" && key > s.upTo }
