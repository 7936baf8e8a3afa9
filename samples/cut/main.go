// Command cut makes the sample files from the whole data sets. It is needed
// only when a source changes:
//
//	go run ./samples/cut SOURCES SAMPLES
//
// SOURCES is a folder with birdstrikes.csv, penguins.json, seattle-weather.csv
// and us-employment.csv (npm package vega-datasets, folder data); SAMPLES is
// this package's folder. Lines and objects are copied as they are, in the order
// of the source.
package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/klauspost/compress/zstd"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: cut SOURCES SAMPLES")
		os.Exit(2)
	}
	if err := cut(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "cut:", err)
		os.Exit(1)
	}
}

func cut(sources, samples string) error {
	month := func(date string) string { return date[:len("2006-01")] + ".csv" }
	year := func(date string) string { return date[:len("2006")] + ".csv" }
	quarter := func(date string) string {
		name := fmt.Sprintf("%s-q%c.csv", date[:len("2006")], '1'+(10*(date[5]-'0')+date[6]-'0'-1)/3)
		if date >= "2000" { // some compressed, as archives are
			name += ".gz"
		}
		return name
	}
	for _, set := range []struct {
		name   string
		column int // of the date
		file   func(date string) string
	}{
		{"seattle-weather", 0, month},
		{"us-employment", 0, year},
		{"birdstrikes", 3, quarter},
	} {
		text, err := os.ReadFile(filepath.Join(sources, set.name+".csv"))
		if err != nil {
			return err
		}
		if err := write(filepath.Join(samples, set.name), cutLines(text, set.column, set.file)); err != nil {
			return err
		}
	}
	text, err := os.ReadFile(filepath.Join(sources, "penguins.json"))
	if err != nil {
		return err
	}
	parts, err := cutObjects(text)
	if err != nil {
		return err
	}
	return write(filepath.Join(samples, "penguins"), parts)
}

// cutLines gives each part the header. The sources have no quoted fields.
func cutLines(text []byte, column int, file func(string) string) map[string]*bytes.Buffer {
	parts := map[string]*bytes.Buffer{}
	header, rows, _ := bytes.Cut(text, []byte("\n"))
	for line := range bytes.Lines(rows) {
		name := file(strings.Split(string(line), ",")[column])
		part := parts[name]
		if part == nil {
			part = bytes.NewBuffer(append(bytes.Clone(header), '\n'))
			parts[name] = part
		}
		part.Write(line)
	}
	return parts
}

// cutObjects cuts by species and island: Adelie as JSON arrays, the others as
// an object a line.
func cutObjects(text []byte) (map[string]*bytes.Buffer, error) {
	var objects []json.RawMessage
	if err := json.Unmarshal(text, &objects); err != nil {
		return nil, err
	}
	arrays := map[string][]json.RawMessage{}
	parts := map[string]*bytes.Buffer{}
	for _, object := range objects {
		var penguin struct{ Species, Island string }
		if err := json.Unmarshal(object, &penguin); err != nil {
			return nil, err
		}
		name := strings.ToLower(penguin.Species + "-" + penguin.Island)
		switch penguin.Species {
		case "Adelie":
			arrays[name+".json"] = append(arrays[name+".json"], object)
			continue
		case "Chinstrap":
			name += ".ndjson.zst"
		default:
			name += ".ndjson"
		}
		if parts[name] == nil {
			parts[name] = &bytes.Buffer{}
		}
		if err := json.Compact(parts[name], object); err != nil {
			return nil, err
		}
		parts[name].WriteByte('\n')
	}
	for name, array := range arrays {
		out, err := json.MarshalIndent(array, "", "  ")
		if err != nil {
			return nil, err
		}
		parts[name] = bytes.NewBuffer(append(out, '\n'))
	}
	return parts, nil
}

func write(folder string, parts map[string]*bytes.Buffer) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	for name, text := range parts {
		content, err := compressed(name, text.Bytes())
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(folder, name), content, 0o644); err != nil {
			return err
		}
	}
	return nil
}

func compressed(name string, text []byte) ([]byte, error) {
	switch filepath.Ext(name) {
	case ".gz":
		var out bytes.Buffer
		w := gzip.NewWriter(&out)
		if _, err := w.Write(text); err != nil {
			return nil, err
		}
		err := w.Close()
		return out.Bytes(), err
	case ".zst":
		w, err := zstd.NewWriter(nil)
		if err != nil {
			return nil, err
		}
		return w.EncodeAll(text, nil), nil
	}
	return text, nil
}
