// Package samples carries small real files, public domain, for the demo and for
// tests: four data sets cut into files by time or place, in every format that
// the built-in processor takes. Every row of each source is there exactly once;
// SOURCES.md names the origins and the sums.
//
// It does not promise that the set of files stays the same.
package samples

import (
	"embed"
	"io/fs"
)

//go:embed birdstrikes penguins seattle-weather us-employment
var files embed.FS

// FS has one folder for each data set, such as seattle-weather/2012-01.csv.
func FS() fs.FS { return files }
