package scale

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"testing"
)

var (
	scale   = flag.Int("scale", 20_000, "how many files the ledger has; from a million on, time and memory are held to their bounds")
	whole   = flag.Bool("whole", false, "measure the listing page after page in full, and not a tenth of it")
	profile = flag.String("profile", "", "a folder for the CPU and memory profiles of the processes that are measured")
)

// ordersVariable makes this test binary one of the processes of a measurement.
const ordersVariable = "LOCKSTEP_SCALE_ORDERS"

func TestMain(m *testing.M) {
	if text := os.Getenv(ordersVariable); text != "" {
		os.Exit(obey(text))
	}
	if name := os.Getenv(functionVariable); name != "" {
		serveFunction(name)
		return
	}
	os.Exit(m.Run())
}

// orders is what a process is told in its environment.
type orders struct {
	Do       string `json:"do"`
	Endpoint string `json:"endpoint,omitempty"` // of the servers
	Source   string `json:"source,omitempty"`   // bucket
	Ledger   string `json:"ledger,omitempty"`   // folder of the state bucket
	Known    int    `json:"known,omitempty"`    // files in the ledger
	Fresh    int    `json:"fresh,omitempty"`    // files that are not
	SDK      bool   `json:"sdk,omitempty"`      // a bare listing is the SDK's own
	Pages    int    `json:"pages,omitempty"`    // where a bare listing ends; 0 is at its end
	MaxFiles int    `json:"maxFiles,omitempty"` // what a discovery takes
	Commits  int    `json:"commits,omitempty"`  // how many commits
	Rows     int    `json:"rows,omitempty"`     // of each
	Profile  string `json:"profile,omitempty"`  // what the files of its profiles begin with
}

// obey does as ordered, prints what came of it, and returns the exit code.
func obey(text string) int {
	var o orders
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	// Standard input ends when whoever gave the orders does.
	ended := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		close(ended)
	}()
	if o.Do == "serve" {
		if err := serve(os.Stdout, ended); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return 0
	}
	go func() {
		<-ended
		os.Exit(3)
	}()
	r, err := measure(o)
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(r)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", o.Do, err)
		return 1
	}
	return 0
}
