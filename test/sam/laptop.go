package sam

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"time"

	lockstep "github.com/lockstep-pipeline/lockstep"
	"github.com/lockstep-pipeline/lockstep/internal/local"
	"github.com/lockstep-pipeline/lockstep/internal/step"
	"github.com/lockstep-pipeline/lockstep/pkg/bucket"
	"github.com/lockstep-pipeline/lockstep/pkg/lease"
	"github.com/lockstep-pipeline/lockstep/pkg/s3lock"
	"github.com/lockstep-pipeline/lockstep/samples"
)

// Port is where env.json looks for S3.
const Port = "9010"

// Token is what the first run gets that asks for the lock: the one that the
// events are about.
const Token = 42

// files are the samples that lie in the source bucket: two batches.
var files = []string{"seattle-weather/2012-*.csv", "penguins/*"}

// Laptop is an S3 on this machine whose buckets suit the events.
type Laptop struct {
	stack  *local.Stack
	server *http.Server
	served []chan struct{} // closed when a listener is no longer served
	at     []string        // host:port of the listeners
	files  int             // in the source bucket
	config step.RunConfig
}

// Addresses are where containers find this machine, as host:port: on Linux
// Docker's bridge, elsewhere the loopback interface, which is listened to in
// any case.
func Addresses() []string {
	hosts := []string{"127.0.0.1"}
	if bridge, err := net.InterfaceByName("docker0"); err == nil {
		addresses, _ := bridge.Addrs() // none, then
		for _, a := range addresses {
			if network, is := a.(*net.IPNet); is && network.IP.To4() != nil {
				hosts = append(hosts, network.IP.String())
			}
		}
	}
	for i, host := range hosts {
		hosts[i] = net.JoinHostPort(host, Port)
	}
	return hosts
}

// Start makes the buckets and serves them at the addresses.
func Start(ctx context.Context, addresses ...string) (_ *Laptop, err error) {
	l := &Laptop{}
	if l.config, err = step.ParseConfig(lockstep.ScheduleEvent); err != nil {
		return nil, err
	}
	if l.stack, err = local.Start(ctx, local.Config{Logger: slog.New(slog.DiscardHandler)}); err != nil {
		return nil, err
	}
	if err = l.fill(ctx); err == nil {
		err = l.serve(ctx, addresses)
	}
	if err != nil {
		return nil, errors.Join(err, l.Close(ctx))
	}
	return l, nil
}

// Close ends the service; what was in the buckets is gone.
func (l *Laptop) Close(ctx context.Context) error {
	var err error
	if l.server != nil {
		err = l.server.Close()
	}
	for _, served := range l.served {
		<-served
	}
	return errors.Join(err, l.stack.Close(ctx))
}

// Bucket opens one of the buckets.
func (l *Laptop) Bucket(name string) (*bucket.Bucket, error) {
	return bucket.New(l.stack.S3(), name, bucket.Options{})
}

// Files tells how many source files there are.
func (l *Laptop) Files() int { return l.files }

// At is where S3 is served, as host:port.
func (l *Laptop) At() []string { return l.at }

// fill uploads the files, and lets the lock have had a past.
func (l *Laptop) fill(ctx context.Context) error {
	for _, place := range []step.Location{l.config.Source, l.config.Destination.Location(), l.config.State} {
		if err := l.stack.CreateBucket(ctx, place.Bucket); err != nil {
			return err
		}
	}
	source, err := l.Bucket(l.config.Source.Bucket)
	if err != nil {
		return err
	}
	for _, pattern := range files {
		paths, err := fs.Glob(samples.FS(), pattern)
		if err != nil {
			return err
		}
		for _, path := range paths {
			content, err := fs.ReadFile(samples.FS(), path)
			if err != nil {
				return err
			}
			key := l.config.Source.Prefix + path
			if _, err := source.Put(ctx, key, bytes.NewReader(content), "", bucket.Condition{}); err != nil {
				return err
			}
			l.files++
		}
	}
	return l.spendTokens(ctx)
}

func (l *Laptop) spendTokens(ctx context.Context) error {
	state, err := l.Bucket(l.config.State.Bucket)
	if err != nil {
		return err
	}
	register, err := s3lock.New(state, step.LockKey(l.config))
	if err != nil {
		return err
	}
	lock, err := lease.New(register, lease.Config{
		TTL: time.Duration(l.config.Lock.TTLSeconds) * time.Second, Grace: time.Duration(l.config.Lock.GraceSeconds) * time.Second,
	})
	if err != nil {
		return err
	}
	for range Token - 1 {
		grant, err := lock.TryAcquire(ctx, "earlier runs")
		if err != nil {
			return err
		}
		if _, err := lock.Release(ctx, grant.Owner, grant.Token, "run finished"); err != nil {
			return err
		}
	}
	return nil
}

func (l *Laptop) serve(ctx context.Context, addresses []string) error {
	endpoint, err := url.Parse(l.stack.Endpoint())
	if err != nil {
		return err
	}
	l.server = &http.Server{Handler: withoutMapRuns(httputil.NewSingleHostReverseProxy(endpoint))}
	for _, address := range addresses {
		var lc net.ListenConfig
		listener, err := lc.Listen(ctx, "tcp", address)
		if err != nil {
			return fmt.Errorf("serve S3 to containers: %w", err)
		}
		l.at = append(l.at, listener.Addr().String())
		served := make(chan struct{})
		l.served = append(l.served, served)
		go func() {
			defer close(served)
			_ = l.server.Serve(listener) // ErrServerClosed: the listener is ours
		}()
	}
	return nil
}

// withoutMapRuns answers release, which asks Step Functions whether an aborted
// execution has a Map Run left: none has.
func withoutMapRuns(s3 http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.Header.Get("X-Amz-Target"), ".ListMapRuns") {
			s3.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/x-amz-json-1.0")
		_ = json.NewEncoder(w).Encode(map[string]any{"mapRuns": []any{}}) // the client is gone
	})
}
