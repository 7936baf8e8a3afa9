package process

// types is the set of types that every value seen so far could be.
type types uint8

const (
	integer types = 1 << iota
	double
	boolean
	date
	instant // a timestamp with a zone
	local   // a timestamp without one

	anyType = integer | double | boolean | date | instant | local
)

// column is what the values of a column have in common.
type column struct {
	possible types
	kinds    [nestedKind + 1]bool
	longest  int // length of the longest text, in bytes
}

func newColumn() column { return column{possible: anyType} }

// observe narrows the column by one value.
func (c *column) observe(v cell) {
	if v.kind == nullKind || v.kind == textKind && len(v.text) == 0 {
		return // a quoted empty field is an empty string or, in a typed column, null
	}
	c.kinds[v.kind] = true
	c.longest = max(c.longest, len(v.text))
	if c.possible != 0 {
		c.possible &= typesOf(v, c.possible)
	}
}

// typesOf tells which of the asked types a value could be, with nothing lost.
func typesOf(v cell, asked types) types {
	switch v.kind {
	case textKind:
		return asked & (numbers(v.text, asked) | booleans(v.text) | times(v.text, asked))
	case numberKind:
		return asked & numbers(v.text, asked)
	case boolKind:
		return asked & boolean
	case stringKind: // "12" in quotes is meant as a string; a date has no other form
		return asked & times(v.text, asked)
	}
	return 0
}

func numbers(text []byte, asked types) (t types) {
	if asked&integer != 0 {
		if _, ok := integerOf(text); ok {
			t |= integer
		}
	}
	if asked&double != 0 {
		if _, ok := doubleOf(text); ok {
			t |= double
		}
	}
	return t
}

func times(text []byte, asked types) types {
	if asked&date != 0 {
		if _, ok := dateOf(text); ok {
			return date
		}
	}
	if asked&(instant|local) != 0 {
		switch _, zoned, ok := timestampOf(text); {
		case ok && zoned:
			return instant
		case ok:
			return local
		}
	}
	return 0
}

func booleans(text []byte) types {
	switch string(text) {
	case "true", "True", "TRUE", "false", "False", "FALSE":
		return boolean
	}
	return 0
}

// columnType is what a column becomes.
type columnType int

const (
	stringType columnType = iota
	jsonType
	integerType
	doubleType
	booleanType
	dateType
	instantType
	localType
)

// decide picks the narrowest type that holds every value. Values of one kind
// without a common type stay text, as written. Where kinds meet (1, "1", {}),
// text would no longer tell them apart, so they become JSON.
func (c *column) decide() columnType {
	kinds := 0
	for _, seen := range c.kinds {
		if seen {
			kinds++
		}
	}
	switch p := c.possible; {
	case kinds == 0:
		return stringType
	case p&integer != 0:
		return integerType
	case p&double != 0:
		return doubleType
	case p&boolean != 0:
		return booleanType
	case p&date != 0:
		return dateType
	case p&instant != 0:
		return instantType
	case p&local != 0:
		return localType
	case kinds > 1 || c.kinds[nestedKind]:
		return jsonType
	}
	return stringType
}
