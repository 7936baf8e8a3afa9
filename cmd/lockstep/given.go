package main

import (
	"crypto/rand"
	"encoding/hex"
	"io"
	"os"
)

// readGiven reads the file that was named on the command line, where - is
// standard input.
func readGiven(name string, standard io.Reader) ([]byte, error) {
	if name == "-" {
		return io.ReadAll(standard)
	}
	return os.ReadFile(name)
}

// distinct is a text that tells names apart which are otherwise the same.
func distinct() string {
	random := make([]byte, 4)
	_, _ = rand.Read(random) // it never fails
	return hex.EncodeToString(random)
}
