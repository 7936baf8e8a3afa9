package process

// records reads a file's records, in order. Reading the same text again gives
// the same records.
type records interface {
	// next gives the next record, which is valid until the call after; io.EOF ends.
	next() (*record, error)
	// columns names the columns in order of first appearance. A JSON file has
	// told them all only once next has returned io.EOF.
	columns() []string
}

// record is one row of the source: good, or rejected for a reason.
type record struct {
	number int64  // counts from 1, without the header
	line   int64  // where it begins, counting from 1
	cells  []cell // by column; columns beyond the last are null
	reason string // why it is rejected; "" when it is good
	raw    []byte // its text without the line end; only for a rejected record
}

// kind is what the source's syntax says about a value, before any inference.
type kind uint8

const (
	nullKind   kind = iota
	textKind        // a field of delimited text: may stand for any type
	stringKind      // a JSON string, decoded
	numberKind      // a JSON number, as written
	boolKind        // true or false
	nestedKind      // a JSON object or array, as written
)

type cell struct {
	kind kind
	text []byte
}
