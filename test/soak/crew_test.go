package soak

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"sync"
	"testing"
	"time"
)

// clientVariable holds a client's orders; a process that has it is a client.
const clientVariable = "LOCKSTEP_SOAK_CLIENT"

// crew is the clients' processes. A slot is a client; who is killed is followed
// by another life under a new name.
type crew struct {
	t      *testing.T
	seed   uint64
	orders func(slot int) orders

	mu      sync.Mutex
	current []*process // by slot
	lives   []*life
	over    bool
	running sync.WaitGroup
}

type process struct {
	life  *life
	cmd   *exec.Cmd
	stdin io.Closer
}

func newCrew(t *testing.T, seed uint64, slots int, o func(slot int) orders) *crew {
	c := &crew{t: t, seed: seed, orders: o, current: make([]*process, slots)}
	t.Cleanup(c.kill)
	for slot := range slots {
		c.start(slot)
		if c.current[slot] == nil {
			t.FailNow()
		}
	}
	return c
}

// start begins the next life of a slot.
func (c *crew) start(slot int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		return
	}
	number := len(c.lives)
	o := c.orders(slot)
	o.Owner, o.Seed = fmt.Sprintf("client-%d/%d", slot, number), c.seed+uint64(number)
	spec, err := json.Marshal(o)
	if err != nil {
		c.t.Error(err)
		return
	}
	p := &process{life: &life{slot: slot, owner: o.Owner}, cmd: exec.Command(os.Args[0])}
	p.cmd.Env = append(os.Environ(), clientVariable+"="+string(spec))
	complaints := &bytes.Buffer{}
	p.cmd.Stderr = complaints
	stdin, err := p.cmd.StdinPipe()
	if err != nil {
		c.t.Error(err)
		return
	}
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		c.t.Error(err)
		return
	}
	if err := p.cmd.Start(); err != nil {
		c.t.Error(err)
		return
	}
	p.stdin = stdin
	c.current[slot] = p
	c.lives = append(c.lives, p.life)
	c.running.Go(func() {
		c.listen(p.life, stdout)
		err := p.cmd.Wait()
		if c.killed(p.life) {
			c.start(slot)
		} else if err != nil {
			c.t.Errorf("%s: %v\n%s", p.life.owner, err, complaints)
		}
	})
}

func (c *crew) listen(l *life, stdout io.Reader) {
	lines := bufio.NewScanner(stdout)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var r record
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			continue // the last line of a killed process, cut
		}
		c.mu.Lock()
		l.records = append(l.records, r)
		c.mu.Unlock()
	}
}

func (c *crew) killed(l *life) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !l.killed.IsZero()
}

// find returns a living process that is in the middle of something: it holds,
// or it waits.
func (c *crew) find(holding bool, choose func(n int) int) (slot int, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var found []int
	for slot, p := range c.current {
		a := p.life.last().Act
		if waiting := a == asked; p.life.killed.IsZero() && (holding && holds(a) || !holding && waiting) {
			found = append(found, slot)
		}
	}
	if len(found) == 0 {
		return 0, false
	}
	return found[choose(len(found))], true
}

func holds(a act) bool {
	return a == held || a == intent || a == dropped || a == done || a == stamped
}

// strike sends SIGKILL to the process in slot.
func (c *crew) strike(slot int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.current[slot]
	p.life.killed = time.Now()
	if err := p.cmd.Process.Kill(); err != nil {
		c.t.Errorf("kill %s: %v", p.life.owner, err)
	}
}

// soFar is what has happened until now.
func (c *crew) soFar() history {
	c.mu.Lock()
	defer c.mu.Unlock()
	var h history
	for _, l := range c.lives {
		h.lives = append(h.lives, &life{slot: l.slot, owner: l.owner, records: slices.Clone(l.records), killed: l.killed})
	}
	return h
}

// finish asks everybody to stop after their last turn, and waits.
func (c *crew) finish(within time.Duration) (inTime bool) {
	c.mu.Lock()
	c.over = true
	for _, p := range c.current {
		_ = p.stdin.Close()
	}
	c.mu.Unlock()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		c.running.Wait()
	}()
	select {
	case <-ended:
		return true
	case <-time.After(within):
		return false
	}
}

// kill ends whatever still runs.
func (c *crew) kill() {
	c.mu.Lock()
	c.over = true
	for _, p := range c.current {
		if p == nil {
			continue // it did not start
		}
		if p.life.killed.IsZero() {
			p.life.killed = time.Now()
		}
		_ = p.cmd.Process.Kill() // an error says that it has ended
	}
	c.mu.Unlock()
	c.running.Wait()
}
