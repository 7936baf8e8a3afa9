package lease

import (
	"fmt"
	"reflect"
	"testing"
	"time"
)

// Whatever is done to a lock, in whatever order and by clocks that step, the
// document is sound, is read as it was written, and its tokens only grow.
func FuzzTransitions(f *testing.F) {
	f.Add([]byte("a0b0c0a1b2"))
	f.Add([]byte{0, 10, 65, 200, 130, 1, 7, 255, 14, 0, 21, 90, 28, 3})
	f.Fuzz(func(t *testing.T, script []byte) {
		d, now, last := newDocument(1, 0), at(0), int64(0)
		for i := 0; i+1 < len(script) && i < 400; i += 2 {
			what, who := int(script[i])%7, int(script[i])/7%5
			// Up to a minute ahead, or a second back.
			now = now.Add(time.Duration(int(script[i+1])%62-1) * time.Second)
			owner, before := fmt.Sprint("P", who), d
			switch what {
			case 0, 1:
				r := asker(owner)
				r.queue, r.priority, r.limit, r.maxWaiters = what == 1, who%3, 1+int(script[i+1])%3, 3
				d, _, _ = ask(d, r, now)
			case 2:
				h, _ := d.holderOf(owner)
				d, _, _ = renew(d, owner, h.Token, now)
			case 3:
				d, _ = release(d, leaving{owner: owner, once: who%2 == 0, reason: string(script[i:])}, now)
			case 4:
				d, _ = withdraw(d, owner, who%2 == 0, now)
			case 5:
				d, _, _ = breakHolder(d, BreakRequest{Holder: owner, By: string(script), Reason: owner}, now)
			case 7:
				d, _ = stop(d, owner, string(script), now)
			case 6:
				h, _ := d.holderOf(owner)
				d, _ = abandon(d, abandoning{owner: owner, token: h.Token, queue: true}, now)
			}
			d = d.seal(fmt.Sprint("n", i))
			if d.LastToken < last {
				t.Fatalf("the last token went from %d to %d", last, d.LastToken)
			}
			for _, h := range d.Holders {
				if _, was := before.held(h.Owner, h.Token); was < 0 && h.Token <= last {
					t.Fatalf("token %d was granted after %d", h.Token, last)
				}
			}
			last = d.LastToken
			read, err := decode(encoded(t, d))
			if err != nil {
				t.Fatalf("%+v is unreadable: %v", d, err)
			}
			if !reflect.DeepEqual(read, d) {
				t.Fatalf("%+v is read as %+v", d, read)
			}
		}
	})
}
