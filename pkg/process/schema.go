package process

import (
	"reflect"

	"github.com/parquet-go/parquet-go"
)

func schemaOf(t *table) *parquet.Schema {
	root := &orderedGroup{fields: make([]parquet.Field, len(t.names))}
	for i, name := range t.names {
		root.fields[i] = namedField{Node: parquet.Optional(nodeOf(t.types[i], t.unbounded(i))), name: name}
	}
	return parquet.NewSchema("table", root)
}

func nodeOf(t columnType, unbounded bool) parquet.Node {
	switch t {
	case integerType:
		return parquet.Leaf(parquet.Int64Type)
	case doubleType:
		return parquet.Leaf(parquet.DoubleType)
	case booleanType:
		return parquet.Leaf(parquet.BooleanType)
	case dateType:
		return parquet.Date()
	case instantType:
		return parquet.TimestampAdjusted(parquet.Microsecond, true)
	case localType:
		return parquet.TimestampAdjusted(parquet.Microsecond, false)
	case jsonType:
		if unbounded {
			return parquet.Leaf(unboundedType{parquet.JSON().Type()})
		}
		return parquet.JSON()
	}
	if unbounded {
		return parquet.Leaf(unboundedType{parquet.String().Type()})
	}
	return parquet.Encoded(parquet.String(), &parquet.RLEDictionary)
}

// orderedGroup is a parquet.Group that keeps its fields in their order
// (parquet.Group sorts them) under any name (a Go struct takes no comma).
type orderedGroup struct {
	parquet.Group
	fields []parquet.Field
}

func (g *orderedGroup) Fields() []parquet.Field { return g.fields }

func (g *orderedGroup) GoType() reflect.Type { return reflect.TypeFor[[]any]() }

type namedField struct {
	parquet.Node
	name string
}

func (f namedField) Name() string { return f.name }

// Value is for writing Go values; rows are written value by value instead.
func (f namedField) Value(reflect.Value) reflect.Value { return reflect.Value{} }
