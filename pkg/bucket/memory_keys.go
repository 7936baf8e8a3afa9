package bucket

import (
	"strings"
	"unicode/utf8"
)

// keyRefusal returns the S3 error code for a key that S3 does not take, else "".
//
// Source: S3 User Guide, "Naming Amazon S3 objects": at most 1,024 bytes of
// UTF-8, and read from the left never more ".." than other segments.
func keyRefusal(key string) string {
	switch {
	case key == "":
		return "InvalidRequest"
	case len(key) > 1024:
		return "KeyTooLongError"
	case !utf8.ValidString(key):
		return "InvalidURI"
	}
	depth := 0
	for segment := range strings.SplitSeq(key, "/") {
		switch segment {
		case "..":
			if depth--; depth < 0 {
				return "InvalidURI"
			}
		case "", ".": // leads nowhere
		default:
			depth++
		}
	}
	return ""
}
