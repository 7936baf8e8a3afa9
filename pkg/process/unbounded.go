package process

import "github.com/parquet-go/parquet-go"

// maxBoundBytes is the longest text for which a column has its least and
// greatest value in the statistics, which hold them in full, page by page:
// documents kept in a column would fill the footer.
const maxBoundBytes = 1 << 10

// skipBounds leaves those values out for one column. Its page index needs some
// all the same, and the library would write "" for both, by which a reader may
// skip pages that have what it looks for; see unboundedType.
func skipBounds(name string) []parquet.WriterOption {
	return []parquet.WriterOption{parquet.SkipPageStatistics(name), parquet.SkipPageBounds(name)}
}

// unboundedType is a text type whose page index says of every page that it may
// hold any text.
type unboundedType struct{ parquet.Type }

func (u unboundedType) NewColumnIndexer(sizeLimit int) parquet.ColumnIndexer {
	return unboundedIndexer{u.Type.NewColumnIndexer(sizeLimit)}
}

type unboundedIndexer struct{ parquet.ColumnIndexer }

func (u unboundedIndexer) IndexPage(values, nulls int64, _, _ parquet.Value) {
	var least, greatest parquet.Value
	if nulls < values {
		least, greatest = parquet.ByteArrayValue(nil), parquet.ByteArrayValue([]byte{0xff}) // no UTF-8 begins with 0xff
	}
	u.ColumnIndexer.IndexPage(values, nulls, least, greatest)
}
