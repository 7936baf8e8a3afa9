package main

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/lockstep-pipeline/lockstep/pkg/bucket"
	"github.com/lockstep-pipeline/lockstep/pkg/bucket/s3test"
	"github.com/lockstep-pipeline/lockstep/pkg/lease"
	"github.com/lockstep-pipeline/lockstep/pkg/s3lock"
)

// mainVariable makes this test binary the command itself.
const mainVariable = "LOCKSTEP_TEST_MAIN"

func TestMain(m *testing.M) {
	if os.Getenv(mainVariable) != "" {
		main()
	}
	os.Exit(m.Run())
}

// theLock is what the tests fight for.
const theLock = "s3://locks/nightly"

// world is an S3 on loopback, and commands that use it.
type world struct {
	memory *bucket.Memory
	server *s3test.Server
	ahead  atomic.Int64 // nanoseconds that the server's clock was put forward
	main   *endpoint

	mu      sync.Mutex
	changed chan struct{} // closed at the next write
}

func newWorld(t *testing.T) *world {
	t.Helper()
	return newWorldOf(t, time.Now)
}

// newWorldOf has a server whose clock is now, plus ahead.
func newWorldOf(t *testing.T, now func() time.Time) *world {
	t.Helper()
	w := &world{changed: make(chan struct{})}
	w.memory = bucket.NewMemory("locks", func() time.Time { return now().Add(time.Duration(w.ahead.Load())) })
	w.server = s3test.New(t, w.memory)
	w.main = w.endpoint(t)
	return w
}

// endpoint is one way to the S3, which can be cut.
type endpoint struct {
	*httptest.Server
	cut atomic.Bool
}

func (w *world) endpoint(t *testing.T) *endpoint {
	e := &endpoint{}
	e.Server = httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if e.cut.Load() {
			panic(http.ErrAbortHandler)
		}
		w.server.ServeHTTP(rw, r)
		if r.Method == http.MethodPut {
			w.mu.Lock()
			defer w.mu.Unlock()
			close(w.changed)
			w.changed = make(chan struct{})
		}
	}))
	t.Cleanup(e.Close)
	return e
}

// lock is a client of theLock within the test.
func (w *world) lock(t *testing.T, cfg lease.Config) *lease.Lock {
	t.Helper()
	return w.lockAt(t, "nightly", cfg)
}

func (w *world) lockAt(t *testing.T, key string, cfg lease.Config) *lease.Lock {
	t.Helper()
	register, err := s3lock.New(w.memory, key)
	if err != nil {
		t.Fatal(err)
	}
	lock, err := lease.New(register, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return lock
}

func (w *world) status(t *testing.T) lease.Status {
	t.Helper()
	return w.statusAt(t, "nightly")
}

// token is the token that the lock was granted with last, as a flag takes it.
func (w *world) token(t *testing.T) string {
	t.Helper()
	return strconv.FormatInt(w.status(t).LastToken, 10)
}

func (w *world) statusAt(t *testing.T, key string) lease.Status {
	t.Helper()
	status, err := w.lockAt(t, key, lease.Config{}).Inspect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return status
}

// until waits for a write after which the lock is as wanted.
func (w *world) until(t *testing.T, what string, wanted func(lease.Status) bool) {
	t.Helper()
	w.untilAt(t, "nightly", what, wanted)
}

func (w *world) untilAt(t *testing.T, key, what string, wanted func(lease.Status) bool) {
	t.Helper()
	patience := time.After(time.Minute)
	for {
		w.mu.Lock()
		changed := w.changed
		w.mu.Unlock()
		status := w.statusAt(t, key)
		if wanted(status) {
			return
		}
		select {
		case <-changed:
		case <-patience:
			t.Fatalf("the lock never had %s: %+v", what, status)
		}
	}
}

func aWaiter(s lease.Status) bool { return len(s.Waiters) == 1 }

// put writes an object as it is.
func (w *world) put(t *testing.T, key, body string) {
	t.Helper()
	if _, err := w.memory.Put(t.Context(), key, strings.NewReader(body), "", bucket.Condition{}); err != nil {
		t.Fatal(err)
	}
}

// process is a lockstep that runs.
type process struct {
	*exec.Cmd
	out      *bufio.Reader // its standard output, and its command's
	err      bytes.Buffer
	finished chan struct{}
}

// environment is all that a lockstep under test gets to see.
func (e *endpoint) environment() []string {
	return []string{
		mainVariable + "=1", "PATH=" + os.Getenv("PATH"), "TZ=UTC", "COLUMNS=80",
		"AWS_ENDPOINT_URL_S3=" + e.URL, "LOCKSTEP_S3_PATH_STYLE=true", "AWS_REGION=us-east-1",
		"AWS_ACCESS_KEY_ID=test", "AWS_SECRET_ACCESS_KEY=test", "AWS_EC2_METADATA_DISABLED=true",
		"AWS_CONFIG_FILE=" + os.DevNull, "AWS_SHARED_CREDENTIALS_FILE=" + os.DevNull,
	}
}

// start starts a lockstep. The test has both ends of its pipes: output comes
// to an end only when nobody is left who could write.
func (e *endpoint) start(t *testing.T, args ...string) *process {
	t.Helper()
	p := &process{Cmd: exec.Command(os.Args[0], args...), finished: make(chan struct{})}
	p.Env = e.environment()
	p.Dir = t.TempDir()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	p.Stdout, p.Stderr, p.out = write, &p.err, bufio.NewReader(read)
	p.WaitDelay = 10 * time.Second
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	write.Close()
	go func() {
		_ = p.Wait()
		close(p.finished)
	}()
	t.Cleanup(func() {
		_ = p.Process.Signal(syscall.SIGTERM) // which ends the command, too
		select {
		case <-p.finished:
		case <-time.After(10 * time.Second): // but for one that ignores it
			_ = p.Process.Kill()
			<-p.finished
		}
		read.Close()
	})
	return p
}

// exec starts "lockstep exec" of a shell script under theLock.
func (e *endpoint) exec(t *testing.T, flags, script string) *process {
	t.Helper()
	args := append([]string{"exec"}, strings.Fields(flags)...)
	return e.start(t, append(args, theLock, "--", "sh", "-c", script)...)
}

// says waits for a line of output.
func (p *process) says(t *testing.T, want string) {
	t.Helper()
	line, err := p.out.ReadString('\n')
	if strings.TrimSuffix(line, "\n") != want {
		<-p.finished
		t.Fatalf("got the line %q (%v), want %q; standard error: %s", line, err, want, &p.err)
	}
}

// signal sends the process itself a signal.
func (p *process) signal(t *testing.T, s syscall.Signal) {
	t.Helper()
	if err := p.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}

// end waits for the process and for everybody who has its output.
func (p *process) end(t *testing.T) (out, stderr string, code int) {
	t.Helper()
	rest, err := io.ReadAll(p.out)
	if err != nil {
		t.Fatal(err)
	}
	<-p.finished
	return string(rest), p.err.String(), p.ProcessState.ExitCode()
}

// run runs a lockstep to its end.
func (e *endpoint) run(t *testing.T, args ...string) (out, stderr string, code int) {
	t.Helper()
	return e.start(t, args...).end(t)
}

// write writes a file for the test.
func write(t *testing.T, name, text string, mode os.FileMode) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	return path
}

// contains fails the test for each text that is missing.
func contains(t *testing.T, got string, wanted ...string) {
	t.Helper()
	for _, want := range wanted {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing in:\n%s", want, got)
		}
	}
}
