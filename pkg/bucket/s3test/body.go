package s3test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
)

// readBody reads a request's content. Over TLS the SDK sends it aws-chunked:
// "size-in-hex CRLF data CRLF" until a size of 0, then trailing headers with
// the checksum, which are put with the request's own.
func readBody(r *http.Request) ([]byte, error) {
	if !strings.Contains(r.Header.Get("Content-Encoding"), "aws-chunked") {
		content := bytes.NewBuffer(make([]byte, 0, max(r.ContentLength, 0)+bytes.MinRead))
		_, err := content.ReadFrom(r.Body)
		return content.Bytes(), err
	}
	var content []byte
	reader := bufio.NewReader(r.Body)
	for {
		line, err := readLine(reader)
		if err != nil {
			return nil, err
		}
		size, err := strconv.ParseUint(line, 16, 31)
		if err != nil {
			return nil, fmt.Errorf("aws-chunked: %w", err)
		}
		if size == 0 {
			return content, readTrailers(reader, r.Header)
		}
		chunk := make([]byte, size+2) // with its CRLF
		if _, err := io.ReadFull(reader, chunk); err != nil {
			return nil, err
		}
		content = append(content, chunk[:size]...)
	}
}

func readTrailers(reader *bufio.Reader, header http.Header) error {
	for {
		line, err := readLine(reader)
		if line == "" || err != nil {
			return err
		}
		name, value, _ := strings.Cut(line, ":")
		header.Set(name, strings.TrimSpace(value))
	}
}

func readLine(reader *bufio.Reader) (string, error) {
	line, err := reader.ReadString('\n')
	return strings.TrimSuffix(line, "\r\n"), err
}
