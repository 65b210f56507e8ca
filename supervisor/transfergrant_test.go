package supervisor_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"slices"
	"testing"
	"time"

	"writ"
	"writ/identity/envelope"
	"writ/supervisor/journal"
)

// copying makes a volume on one node and copies of it on others, found in each way.
const copying = `
volume := import("volume")
data := volume.create("data", {size_gib: 1}, {node: "n1"})
volume.copy("by-handle", {from: data, size_gib: 1}, {node: "n2"})
volume.copy("by-name", {from: "data", size_gib: 1}, {node: "n2"})
volume.copy("here", {from: data, size_gib: 1}, {node: "n1"})
far := volume.copy("far", {from: data, size_gib: 1, snapshot: "monday"}, {node: "n2"})
volume.clone("near", {from: far})
`

// grants returns the transfer grants in the jobs that a node got, by the name of the resource.
func (n *testNode) grants() map[string]*writ.TransferGrant {
	n.sim.t.Helper()
	n.mu.Lock()
	defer n.mu.Unlock()
	all := map[string]*writ.TransferGrant{}
	for _, job := range n.jobs {
		all[job.Name] = nil
		if job.Grant == nil {
			continue
		}
		opened, _, err := envelope.Open[writ.TransferGrant](envelope.TransferGrant, job.Grant, n.supervisorKey)
		if err != nil || len(opened) != 1 {
			n.sim.t.Fatalf("%d transfer grants, %v", len(opened), err)
		}
		all[job.Name] = &opened[0]
	}
	return all
}

// TestCopyJobHasTransferGrant holds the transfer grants against the calls.
// What is copied does not bind a copy to its node; other handles do.
func TestCopyJobHasTransferGrant(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		n1 := s.join("n1", func(n *testNode) { n.transfers = "n1.example:7450" })
		n2 := s.join("n2")
		time.Sleep(2 * time.Second)
		preview := s.preview(s.payload(copying))
		id := s.submit(copying)
		_, calls := s.wantState(id, writ.RunSucceeded)
		s.agree(preview, calls)
		if got := n1.grants(); len(got) != 2 || got["here"] != nil || got["data"] != nil {
			t.Errorf("the node that has the volume got %v", got)
		}
		got := n2.grants()
		if len(got) != 4 || got["near"] != nil {
			t.Errorf("the other node got %v", got)
		}
		for i, name := range []string{"", "by-handle", "by-name", "", "far"} {
			if name == "" {
				continue
			}
			w, c := got[name], calls[i]
			switch {
			case w == nil:
				t.Errorf("%s has no transfer grant", name)
			case w.From != n1.id || w.FromName != "n1" || w.Address != "n1.example:7450" || !bytes.Equal(w.FromKey, n1.key.Public().(ed25519.PublicKey)):
				t.Errorf("%s is to be fetched of %+v", name, w)
			case w.To != n2.id || !bytes.Equal(w.ToKey, n2.key.Public().(ed25519.PublicKey)):
				t.Errorf("%s is for %+v", name, w)
			case w.Resource != calls[0].Resource() || w.UID != calls[0].UID || w.Cluster != s.Pin || w.Datacenter != theDatacenter:
				t.Errorf("%s is about %+v", name, w)
			case w.Snapshot != map[string]string{"far": "monday"}[name]:
				t.Errorf("%s is of the snapshot %q", name, w.Snapshot)
			case w.Unheard:
				t.Errorf("%s is to be fetched of a node that was not heard", name)
			case w.Transfer != string(id)+"-"+string(rune('1'+i)) || w.Expires != c.EndBy.UnixMilli():
				t.Errorf("%s is called %s and expires at %d", name, w.Transfer, w.Expires)
			}
		}
	})
}

// TestRetriedCopyHasNewTransferGrant moves the node's address between two attempts. The transfer is the same.
func TestRetriedCopyHasNewTransferGrant(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		n1 := s.join("n1", func(n *testNode) { n.transfers = "n1.example:7450" })
		n2 := s.join("n2", func(n *testNode) { n.act = failing("copy", writ.CodeUnreachable) })
		time.Sleep(2 * time.Second)
		id := s.submit(`
volume := import("volume")
volume.create("data", {size_gib: 1}, {node: "n1"})
volume.copy("copy", {from: "data", size_gib: 1}, {node: "n2"})
`)
		for n2.grants()["copy"] == nil {
			time.Sleep(10 * time.Millisecond)
		}
		first := *n2.grants()["copy"]
		n1.mu.Lock()
		n1.transfers = "n1.example:7451"
		n1.mu.Unlock()
		s.wantState(id, writ.RunFailed)
		last := *n2.grants()["copy"]
		if first.Transfer != last.Transfer || first.Address == last.Address || last.Address != "n1.example:7451" {
			t.Errorf("first %+v, last %+v", first, last)
		}
	})
}

// TestCopyDistinguishesSilentFromClosedNode starts the supervisor anew. Where the one node gives is not known until it beats; that the other gives
// nothing is, since it has beaten.
func TestCopyDistinguishesSilentFromClosedNode(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		n1 := s.join("n1", func(n *testNode) { n.transfers = "n1.example:7450" })
		var heard []bool
		n2 := s.join("n2", func(n *testNode) {
			n.act = func(ctx context.Context, job writ.Job) writ.Result {
				if job.Name != "copy" {
					return succeed(ctx, job)
				}
				w := n.grants()["copy"]
				if heard = append(heard, !w.Unheard); !w.Unheard {
					return succeed(ctx, job)
				}
				if w.Address != "" {
					t.Errorf("nobody said %s", w.Address)
				}
				n1.setSilent(false)
				return writ.Result{Error: writ.Errorf(writ.CodeUnreachable, "it has not said yet")}
			}
		})
		time.Sleep(2 * time.Second)
		s.wantState(s.submit(`
volume := import("volume")
volume.create("data", {size_gib: 1}, {node: "n1"})
volume.create("other", {size_gib: 1}, {node: "n2"})
`), writ.RunSucceeded)
		n1.setSilent(true)
		s.halt()
		s.start()
		time.Sleep(2 * time.Second)
		s.wantState(s.submit(`
volume := import("volume")
volume.copy("copy", {from: "data", size_gib: 1}, {node: "n2"})
`), writ.RunSucceeded)
		// The call may be sent again before the first beat of its source: how often is up to the random pause between attempts.
		if w := n2.grants()["copy"]; !slices.Equal(slices.Compact(heard), []bool{false, true}) || w.Address != "n1.example:7450" {
			t.Errorf("the node was heard of: %v; last it was %+v", heard, w)
		}
		s.wantState(s.submit(`
volume := import("volume")
volume.copy("back", {from: "other", size_gib: 1}, {node: "n1"})
`), writ.RunSucceeded)
		if w := n1.grants()["back"]; w == nil || w.Unheard || w.Address != "" {
			t.Errorf("of a node that gives nothing: %+v", w)
		}
	})
}

// TestACopyNeedsItsSource asks for copies of what is not there.
func TestACopyNeedsItsSource(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		s.join("n1")
		time.Sleep(2 * time.Second)
		_, calls := s.wantState(s.submit(`
volume := import("volume")
volume.copy("copy", {from: "none", size_gib: 1})
`), writ.RunFailed)
		if !slices.ContainsFunc(calls, func(c *journal.Call) bool { return c.Error != nil && c.Error.Code == writ.CodeResourceUnknown }) {
			t.Errorf("%+v", calls[0].Error)
		}
	})
}
