package local_test

import (
	"bufio"
	"context"
	"errors"
	"log"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-pipeline/lockstep/internal/local"
)

func TestCloseLeavesNothingRunning(t *testing.T) {
	gate := function("gate", "gate")
	gate.Concurrency = 2
	stack, err := local.Start(t.Context(), local.Config{Functions: []local.Function{gate, function("whoami", "whoami")}})
	if err != nil {
		t.Fatal(err)
	}
	pids := []int{pidOf(t, invoke(t, stack, "whoami", `{}`))} // one that is idle,
	var results []<-chan local.Invocation
	for range 2 { // two that work,
		pipe := newPipes(t)
		results = append(results, async(t, stack, "gate", pipe.payload(t)))
		pids = append(pids, pipe.begun(t))
	}
	inLine := async(t, stack, "gate", []byte(`{}`)) // and one that waits in line
	if err := stack.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, pid := range pids {
		if alive(pid) {
			t.Errorf("process %d is left", pid)
		}
	}
	for _, result := range results {
		if inv := <-result; inv.ErrorType != "Runtime.ExitError" {
			t.Errorf("interrupted invocation: %s %s", inv.ErrorType, inv.Payload)
		}
	}
	if inv := <-inLine; !strings.Contains(inv.ErrorType, local.ErrClosed.Error()) {
		t.Errorf("invocation in line: %s %s", inv.ErrorType, inv.Payload)
	}
	if _, err := stack.Invoke(t.Context(), "gate", nil); !errors.Is(err, local.ErrClosed) {
		t.Errorf("invocation afterwards: %v", err)
	}
	if list := stack.Processes(); len(list) != 0 {
		t.Errorf("processes %+v", list)
	}
	if err := stack.Close(t.Context()); err != nil {
		t.Errorf("closing again: %v", err)
	}
	noGoroutines(t)
}

// noGoroutines fails if code of the package is still running. A goroutine that
// has done its last thing may take a moment to vanish.
func noGoroutines(t *testing.T) {
	t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for {
		left := goroutines()
		if len(left) == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d goroutines are left:\n%s", len(left), strings.Join(left, "\n\n"))
		}
		runtime.Gosched()
	}
}

func goroutines() []string {
	stacks := make([]byte, 1<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	var ours []string
	for stack := range strings.SplitSeq(string(stacks), "\n\n") {
		if strings.Contains(stack, "internal/local.") {
			ours = append(ours, stack)
		}
	}
	return ours
}

// orphanVariable makes this test binary the owner of a stack that nobody
// closes; its value is the order for a function that never returns.
const orphanVariable = "LOCAL_TEST_ORPHAN"

func bearOrphan(order string) {
	stack, err := local.Start(context.Background(), local.Config{
		Functions: []local.Function{function("hold", "hold")},
		Stderr:    os.Stderr,
	})
	if err != nil {
		log.Fatal(err)
	}
	_, err = stack.Invoke(context.Background(), "hold", []byte(order))
	log.Fatal("the function returned: ", err)
}

func TestFunctionDiesWithAKilledParent(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux ties a child's life to its parent's")
	}
	executable, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	pipe := newPipes(t)
	parent := exec.Command(executable)
	parent.Env = append(os.Environ(), orphanVariable+"="+string(pipe.payload(t)))
	parent.Stderr = t.Output()
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = parent.Process.Kill()
		_ = parent.Wait()
	}()
	held, err := os.Open(pipe.Tell)
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	fromChild := bufio.NewReader(held)
	if _, err := fromChild.ReadString('\n'); err != nil {
		t.Fatalf("the function did not begin: %v", err)
	}
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	// The pipe ends when the function's process, the only one to hold it, is gone.
	if rest, err := fromChild.ReadString('\n'); err == nil {
		t.Errorf("the function goes on: %q", rest)
	}
}
