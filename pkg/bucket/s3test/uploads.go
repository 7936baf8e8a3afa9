package s3test

import (
	"bytes"
	"crypto/md5"
	"encoding/xml"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
)

// minPartBytes is the least that S3 takes for a part that is not the last.
const minPartBytes = 5 << 20

// upload is a multipart upload that was neither completed nor aborted.
type upload struct {
	key         string
	contentType string
	parts       map[int][]byte
}

// Uploads returns the keys of the uploads that were begun and neither
// completed nor aborted: what they leave behind is paid for.
func (s *Server) Uploads() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	keys := []string{}
	for _, u := range s.uploads {
		keys = append(keys, u.key)
	}
	slices.Sort(keys)
	return keys
}

func (s *Server) createUpload(w http.ResponseWriter, r *http.Request, key string) {
	s.mu.Lock()
	s.created++
	id := fmt.Sprint("upload-", s.created)
	s.uploads[id] = &upload{key: key, contentType: r.Header.Get("Content-Type"), parts: map[int][]byte{}}
	s.mu.Unlock()
	writeXML(w, http.StatusOK, struct {
		XMLName  xml.Name `xml:"http://s3.amazonaws.com/doc/2006-03-01/ InitiateMultipartUploadResult"`
		Bucket   string
		UploadID string `xml:"UploadId"`
	}{Bucket: s.memory.Name(), UploadID: id})
}

// find returns the upload that a request is about, or refuses it. The caller
// holds mu.
func (s *Server) find(w http.ResponseWriter, r *http.Request, key string) *upload {
	u := s.uploads[r.URL.Query().Get("uploadId")]
	if u == nil || u.key != key {
		writeError(w, http.StatusNotFound, "NoSuchUpload")
		return nil
	}
	return u
}

func (s *Server) uploadPart(w http.ResponseWriter, r *http.Request, key string) error {
	content, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	number, err := strconv.Atoi(r.URL.Query().Get("partNumber"))
	if err != nil || number < 1 || number > 10_000 {
		writeError(w, http.StatusBadRequest, "InvalidArgument")
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if u := s.find(w, r, key); u != nil {
		u.parts[number] = content
		w.Header().Set("ETag", partETag(content))
		w.WriteHeader(http.StatusOK)
	}
	return nil
}

func partETag(content []byte) string { return fmt.Sprintf(`"%x"`, md5.Sum(content)) }

func (s *Server) abortUpload(w http.ResponseWriter, r *http.Request, key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if u := s.find(w, r, key); u != nil {
		delete(s.uploads, r.URL.Query().Get("uploadId"))
		w.WriteHeader(http.StatusNoContent)
	}
}

// completed is the body of CompleteMultipartUpload.
type completed struct {
	Parts []struct {
		PartNumber int
		ETag       string
	} `xml:"Part"`
}

func (s *Server) completeUpload(w http.ResponseWriter, r *http.Request, key string) error {
	var asked completed
	if err := xml.NewDecoder(r.Body).Decode(&asked); err != nil {
		writeError(w, http.StatusBadRequest, "MalformedXML")
		return nil
	}
	s.mu.Lock()
	u := s.find(w, r, key)
	s.mu.Unlock()
	if u == nil {
		return nil
	}
	content, code := s.assemble(u, asked)
	if code != "" {
		writeError(w, http.StatusBadRequest, code)
		return nil
	}
	written, err := s.memory.Upload(r.Context(), key, bytes.NewReader(content), u.contentType)
	if err != nil {
		return err
	}
	s.mu.Lock()
	delete(s.uploads, r.URL.Query().Get("uploadId"))
	s.mu.Unlock()
	writeXML(w, http.StatusOK, struct {
		XMLName xml.Name `xml:"http://s3.amazonaws.com/doc/2006-03-01/ CompleteMultipartUploadResult"`
		Bucket  string
		ETag    string
	}{Bucket: s.memory.Name(), ETag: written.ETag})
	return nil
}

// assemble puts an upload's parts together, or returns the code of what is
// wrong with the list of them.
func (s *Server) assemble(u *upload, asked completed) (content []byte, code string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(asked.Parts) == 0 {
		return nil, "MalformedXML"
	}
	last, size := 0, 0
	for _, stored := range u.parts {
		size += len(stored)
	}
	content = make([]byte, 0, size)
	for i, part := range asked.Parts {
		stored, ok := u.parts[part.PartNumber]
		switch {
		case part.PartNumber <= last:
			return nil, "InvalidPartOrder"
		case !ok || part.ETag != partETag(stored):
			return nil, "InvalidPart"
		case len(stored) < minPartBytes && i < len(asked.Parts)-1:
			return nil, "EntityTooSmall"
		}
		last = part.PartNumber
		content = append(content, stored...)
	}
	return content, ""
}
