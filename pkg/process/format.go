package process

import (
	"fmt"
	"path"
	"strings"
)

type syntax int

const (
	csvSyntax    syntax = iota // delimited text; the delimiter is sniffed, the comma is likeliest
	tsvSyntax                  // the same, the tab is likeliest
	jsonSyntax                 // an array of objects or an object a line: the first byte tells
	ndjsonSyntax               // an object a line
)

type compression int

const (
	plain compression = iota
	gzipped
	zstandard
)

type format struct {
	syntax      syntax
	compression compression
}

var syntaxes = map[string]syntax{
	".csv":    csvSyntax,
	".tsv":    tsvSyntax,
	".json":   jsonSyntax,
	".ndjson": ndjsonSyntax,
	".jsonl":  ndjsonSyntax,
}

var compressions = map[string]compression{
	".gz":  gzipped,
	".zst": zstandard,
}

// formatOf decides by the name alone: content is only ever checked against it.
func formatOf(key string) (format, error) {
	var f format
	name := strings.ToLower(key[strings.LastIndexByte(key, '/')+1:])
	extension := path.Ext(name)
	if c, ok := compressions[extension]; ok {
		f.compression = c
		name = strings.TrimSuffix(name, extension)
		extension = path.Ext(name)
	}
	s, ok := syntaxes[extension]
	if !ok {
		return f, fmt.Errorf("%w: its name ends in %q; taken are .csv, .tsv, .json, .ndjson and .jsonl, each plain or with .gz or .zst",
			ErrUnsupported, path.Ext(key))
	}
	f.syntax = s
	return f, nil
}
