package interop

import (
	"net/http/httptest"
	"testing"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
)

// startGoFakeS3 runs a server that ignores If-Match on reads.
func startGoFakeS3(t *testing.T) server {
	running := httptest.NewServer(gofakes3.New(s3mem.New()).Server())
	t.Cleanup(running.Close)
	return server{running.URL}
}
