package asl_test

import "regexp"

var (
	uuids    = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	times    = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z`)
	metadata = regexp.MustCompile(`"SdkHttpMetadata":\{.*?\},"HttpHeaders":\{.*?\},"HttpStatusCode":200\}`)
)

// masked hides what differs from run to run.
func masked(s string) string {
	s = metadata.ReplaceAllString(s, `"SdkHttpMetadata":…`)
	s = uuids.ReplaceAllString(s, "UUID")
	return times.ReplaceAllString(s, "TIME")
}
