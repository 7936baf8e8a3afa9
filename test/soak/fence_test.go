package soak

import (
	"net/http"
	"strconv"
	"strings"
	"sync"
)

// fencePath is where a proxy serves the fenced resource; no bucket may be
// called so.
const fencePath = "/.fence/"

// fence is a resource that refuses whoever comes with an older token than it
// has seen: what a lock alone cannot keep out, a write that is late.
type fence struct {
	trouble *trouble

	mu    sync.Mutex
	taken []int64
}

func (f *fence) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	token, err := strconv.ParseInt(strings.TrimPrefix(r.URL.Path, fencePath), 10, 64)
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if n := len(f.taken); n > 0 && token < f.taken[n-1] {
		f.trouble.did(staleRefused)
		w.WriteHeader(http.StatusGone)
		return
	}
	f.taken = append(f.taken, token)
	w.WriteHeader(http.StatusNoContent)
}
