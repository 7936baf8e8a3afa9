package s3test

import (
	"context"
	"net"
	"sync"
)

// pipeListener hands one end of a pipe to whoever dials and the other to the
// server. Unlike sockets, pipes count as idle in a testing/synctest bubble.
type pipeListener struct {
	connections chan net.Conn
	closed      chan struct{}
	close       sync.Once
}

func newPipeListener() *pipeListener {
	return &pipeListener{connections: make(chan net.Conn), closed: make(chan struct{})}
}

func (l *pipeListener) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case l.connections <- server:
		return client, nil
	case <-l.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Accept is net.Listener.Accept.
func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.connections:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close is net.Listener.Close.
func (l *pipeListener) Close() error {
	l.close.Do(func() { close(l.closed) })
	return nil
}

// Addr is net.Listener.Addr.
func (l *pipeListener) Addr() net.Addr { return pipeAddr{} }

type pipeAddr struct{}

func (pipeAddr) Network() string { return "pipe" }
func (pipeAddr) String() string  { return "s3.test" }
