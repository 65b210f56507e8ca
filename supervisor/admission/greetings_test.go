package admission

import (
	"encoding/binary"
	"testing"
	"time"
)

func TestHellosOfAStrangerBlockNoNode(t *testing.T) {
	g, now := newGreetings(), time.Now()
	nonce := func(n int) []byte { return binary.BigEndian.AppendUint32(nil, uint32(n)) }
	for n := range maxGreetings + 5 {
		g.add(nonce(n), now)
	}
	for _, n := range []int{5, maxGreetings + 4} {
		if !g.valid(nonce(n), now) {
			t.Errorf("hello %d is forgotten", n)
		}
	}
	if g.valid(nonce(4), now) || len(g.made) > maxGreetings || len(g.order) > maxGreetings {
		t.Errorf("stored %d hellos, want at most %d", len(g.made), maxGreetings)
	}
	if g.valid(nonce(5), now.Add(greetingLife+time.Second)) {
		t.Error("an expired hello is still valid")
	}
}
