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

// A second machine with the data directory of a node is detected, whatever its numbers are, and both machines get no
// work. Old beats and a restarted machine are not copies.
//
// Promise: Machines from an image: A second machine with a copy of a node's disk is detected within seconds while
// both run, and neither gets work then.
// How: Starts have rising numbers, and machines an id of the kernel's start; contradicting beats block the node.
func TestCopyOfNodeDiskIsDetected(t *testing.T) {
	for name, other := range map[string]struct {
		change func(b *writ.Beat)
		copied bool
	}{
		"a copy with the same number of starts": {func(*writ.Beat) {}, true},
		"a copy with a lower sequence":          {func(b *writ.Beat) { b.Sequence = 1 }, true},
		"a copy with an earlier start":          {func(b *writ.Beat) { b.Incarnation-- }, true},
		"a restarted machine":                   {func(b *writ.Beat) { b.Incarnation++ }, false},
		"the same start again":                  {func(b *writ.Beat) { b.Boot, b.Sequence = "first", 1 }, false},
		"an old beat of an earlier start":       {func(b *writ.Beat) { b.Incarnation, b.Clock = b.Incarnation-1, b.Clock-10_000 }, false},
		"a system without a boot id":            {func(b *writ.Beat) { b.Boot = "" }, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				keeper := &memoryAccounts{}
				s := newSimAt(t, filepath.Join(t.TempDir(), "journal.db"), keeper)
				n := s.join("n1")
				n.mu.Lock()
				n.boot, n.incarnation = "first", 6
				n.mu.Unlock()
				time.Sleep(3500 * time.Millisecond) // between two beats: a beat in transit would arrive after the one below
				n.setSilent(name == "a restarted machine")
				b := writ.Beat{Node: n.id, Boot: "second", Incarnation: 7, Sequence: 1000, Epoch: s.Epoch(), Clock: time.Now().UnixMilli(), Health: writ.Health{Slots: 4}}
				other.change(&b)
				n.send(envelope.Beat, b)
				time.Sleep(3 * time.Second)
				if copied := strings.HasPrefix(s.shownNode(n.id).Fault, string(writ.CodeNodeCopied)); copied != other.copied {
					t.Errorf("fault of the node = %q", s.shownNode(n.id).Fault)
				}
				if blocked := keeper.password(n.id) == ""; blocked != other.copied {
					t.Errorf("account of the node removed: %t", blocked)
				}
			})
		})
	}
}
