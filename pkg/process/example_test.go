package process_test

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/lockstep-pipeline/lockstep/pkg/process"
)

// printer is a Publisher; a real one uploads.
type printer struct{}

func (printer) Publish(_ context.Context, out process.Output) error {
	text, err := io.ReadAll(out.Body)
	if err != nil {
		return err
	}
	fmt.Println(out.Name)
	if out.Name == process.RejectedName {
		fmt.Print(string(text))
	}
	return nil
}

func Example() {
	parquet, err := process.NewParquet(process.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	file := process.File{
		Key:  "weather/2012-01.csv",
		ETag: `"0f343b0931126a20f133d67c2b018a3b"`,
		Body: strings.NewReader("date,rain\n2012-01-01,0.0\n2012-01-02\n2012-01-03,10.9\n"),
	}
	outcome, err := parquet.Process(context.Background(), file, printer{})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(outcome.Rows, "rows,", outcome.Rejected, "rejected")
	// Output:
	// _rejected.ndjson
	// {"record":2,"line":3,"reason":"its number of fields is 1, the header's is 2","raw":"2012-01-02"}
	// parquet
	// 2 rows, 1 rejected
}
