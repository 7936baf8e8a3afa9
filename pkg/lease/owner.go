package lease

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"os"
	"strings"
	"unicode"
)

// UniqueOwner returns an owner that nobody else has: name, host, process and 8
// random hex digits. Two clients with one owner are one owner to the lock, and
// hold it together; so a process that is to exclude others needs such a name.
func UniqueOwner(name string) string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	var random [4]byte
	_, _ = rand.Read(random[:]) // never fails
	printable := strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == unicode.ReplacementChar {
			return '_'
		}
		return r
	}, strings.ToValidUTF8(name, "_"))
	const most = 300
	return fmt.Sprintf("%.*s@%.*s:%d:%s", most, printable, most, host, os.Getpid(), hex.EncodeToString(random[:]))
}
