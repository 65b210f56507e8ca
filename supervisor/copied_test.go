package supervisor_test

import (
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"writ"
	"writ/identity/envelope"
)

// A second machine with the data directory of a node is noticed, however it is numbered, and neither of the two gets work. What was said before,
// and a machine that starts again, are no copies.
//
// Promise: Machines from an image: A second machine with a copy of a node's disk is detected within seconds while
// both run, and neither gets work then.
// How: Starts have rising numbers, and machines an id of the kernel's start; contradicting beats block the node.
func TestAMachineWithACopyOfANodesDiskIsNoticed(t *testing.T) {
	for name, other := range map[string]struct {
		change func(b *writ.Beat)
		copied bool
	}{
		"a copy that started as often":          {func(*writ.Beat) {}, true},
		"a copy that says less":                 {func(b *writ.Beat) { b.Sequence = 1 }, true},
		"a copy that started before":            {func(b *writ.Beat) { b.Incarnation-- }, true},
		"a machine that starts again":           {func(b *writ.Beat) { b.Incarnation++ }, false},
		"the same start, again":                 {func(b *writ.Beat) { b.Boot, b.Sequence = "first", 1 }, false},
		"what a start before it said":           {func(b *writ.Beat) { b.Incarnation, b.Clock = b.Incarnation-1, b.Clock-10_000 }, false},
		"a system that does not know its start": {func(b *writ.Beat) { b.Boot = "" }, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				keeper := &memoryAccounts{}
				s := newSimAt(t, filepath.Join(t.TempDir(), "journal.db"), keeper)
				n := s.join("n1")
				n.mu.Lock()
				n.boot, n.incarnation = "first", 6
				n.mu.Unlock()
				time.Sleep(3500 * time.Millisecond) // between two beats: one that is under way would come after what follows
				n.setSilent(name == "a machine that starts again")
				b := writ.Beat{Node: n.id, Boot: "second", Incarnation: 7, Sequence: 1000, Epoch: s.Epoch(), Clock: time.Now().UnixMilli(), Health: writ.Health{Slots: 4}}
				other.change(&b)
				n.send(envelope.Beat, b)
				time.Sleep(3 * time.Second)
				if copied := strings.HasPrefix(s.shown(n.id).Fault, string(writ.CodeNodeCopied)); copied != other.copied {
					t.Errorf("the node is shown with the fault %q", s.shown(n.id).Fault)
				}
				if blocked := keeper.password(n.id) == ""; blocked != other.copied {
					t.Errorf("the account of the node is off: %t", blocked)
				}
			})
		})
	}
}
