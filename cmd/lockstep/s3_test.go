package main

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	"github.com/lockstep-pipeline/lockstep/pkg/bucket"
)

// Who names an emulator on this machine need not know of path styles.
func TestABucketOnThisMachineIsNamedInThePath(t *testing.T) {
	t.Setenv("AWS_ACCESS_KEY_ID", "test")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "test")
	var asked string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = r.Host + r.URL.Path
		w.WriteHeader(http.StatusForbidden)
	}))
	defer server.Close()
	at, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	for _, host := range []string{"localhost", "127.0.0.1"} {
		flags := s3Flags{EndpointURL: "http://" + host + ":" + at.Port()}
		b, err := flags.open(t.Context(), "files")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := b.Get(t.Context(), "a", bucket.Condition{}); err == nil {
			t.Error("a refusal is no error")
		}
		if want := host + ":" + at.Port() + "/files/a"; asked != want {
			t.Errorf("asked for %s, want %s", asked, want)
		}
	}
}
