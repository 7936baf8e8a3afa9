package ledger

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/lockstep-pipeline/lockstep/pkg/bucket"
)

// TestRacingCommittersKeepEveryCommitThatWasConfirmed lets runs with older and
// newer tokens commit at once over a bad network, each sending again until it
// knows.
func TestRacingCommittersKeepEveryCommitThatWasConfirmed(t *testing.T) {
	seed := *worldSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("repeat with -world.seed=%d", seed)
	random := rand.New(rand.NewPCG(seed, 1))
	for range 30 {
		raceOnce(t, rand.New(rand.NewPCG(random.Uint64(), 0)))
	}
}

func raceOnce(t *testing.T, random *rand.Rand) {
	state := bucket.NewMemory("state", newClock().now)
	var mu sync.Mutex
	chance := func(percent int) bool {
		mu.Lock()
		defer mu.Unlock()
		return random.IntN(100) < percent
	}
	state.Fault(
		func(op, _ string) error {
			if chance(5) {
				return errors.New("503")
			}
			return nil
		},
		func(op, _ string) error {
			if op == "put" && chance(10) {
				return errLost
			}
			return nil
		})
	const runs = 6
	confirmed := make([]bool, runs+1)
	var group sync.WaitGroup
	for token := int64(1); token <= runs; token++ {
		l := openLedger(t, state)
		l.limits.mergeCount = 2
		group.Go(func() {
			c := Commit{Run: fmt.Sprint(token), Token: token, Rows: EachRow(done("shared", fmt.Sprint("own-", token)))}
			for {
				_, err := l.Commit(t.Context(), c)
				if errors.Is(err, ErrDamaged) {
					t.Error(err)
				}
				if err == nil || errors.Is(err, ErrFenced) {
					confirmed[token] = err == nil
					return
				}
			}
		})
	}
	group.Wait()
	state.Fault(nil, nil)
	l := openLedger(t, state)
	var want []string
	for token, ok := range confirmed {
		if ok {
			want = append(want, fmt.Sprint("own-", token))
		}
	}
	wantRows(t, l, append(want, "shared")...)
	if rows := rowsOf(t, l); !confirmed[runs] || rows[len(rows)-1].Run != fmt.Sprint(runs) {
		t.Errorf("the newest run was not the last to be heard: %v, %+v", confirmed, rows)
	}
	if err := l.Verify(t.Context()); err != nil {
		t.Error(err)
	}
}
