package ledger

import (
	"context"
	"sync"
)

// pace bounds how many pages are asked for at a time. It begins at the most and
// halves when the server says slow down; then each round of pages without such
// a word allows one more.
type pace struct {
	mu     sync.Mutex
	freed  *sync.Cond
	most   int
	allow  int
	asking int
	calm   int // pages since the last change
	slowed int // how often it was halved: pages asked for before do not halve again
}

func newPace(most int) *pace {
	p := &pace{most: most, allow: most}
	p.freed = sync.NewCond(&p.mu)
	return p
}

// ask waits for its turn. The ticket goes to answered.
func (p *pace) ask(ctx context.Context) (ticket int, err error) {
	stop := context.AfterFunc(ctx, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.freed.Broadcast()
	})
	defer stop()
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.asking >= p.allow && ctx.Err() == nil {
		p.freed.Wait()
	}
	if ctx.Err() != nil {
		return 0, context.Cause(ctx)
	}
	p.asking++
	return p.slowed, nil
}

// answered ends a turn; slow tells that the server asked for fewer requests.
func (p *pace) answered(ticket int, slow bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	defer p.freed.Broadcast()
	p.asking--
	switch {
	case slow && ticket == p.slowed:
		p.allow = max(1, p.allow/2)
		p.slowed++
		p.calm = 0
	case slow:
	case p.calm+1 >= p.allow:
		p.allow = min(p.most, p.allow+1)
		p.calm = 0
	default:
		p.calm++
	}
}
