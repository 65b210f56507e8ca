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

// copying creates a volume on one node, and copies it to two nodes by handle and by name.
const copying = `
volume := import("volume")
data := volume.create("data", {size_gib: 1}, {node: "n1"})
volume.copy("by-handle", {from: data, size_gib: 1}, {node: "n2"})
volume.copy("by-name", {from: "data", size_gib: 1}, {node: "n2"})
volume.copy("here", {from: data, size_gib: 1}, {node: "n1"})
far := volume.copy("far", {from: data, size_gib: 1, snapshot: "monday"}, {node: "n2"})
volume.clone("near", {from: far})
`

// grants returns the transfer grants in the jobs that a node received, by resource name.
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

// TestCopyJobHasTransferGrant compares the transfer grants with the calls. A copy need not be on the node of its
// source, but handles of other calls bind a call to their node.
func TestCopyJobHasTransferGrant(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		n1 := s.join("n1", func(n *testNode) { n.transfers = "n1.example:7450" })
		n2 := s.join("n2")
		time.Sleep(2 * time.Second)
		preview := s.preview(s.payload(copying))
		id := s.submit(copying)
		_, calls := s.wantState(id, writ.RunSucceeded)
		s.wantAsPreviewed(preview, calls)
		if got := n1.grants(); len(got) != 2 || got["here"] != nil || got["data"] != nil {
			t.Errorf("grants of the source node = %v", got)
		}
		got := n2.grants()
		if len(got) != 4 || got["near"] != nil {
			t.Errorf("grants of the other node = %v", got)
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
				t.Errorf("source of %s = %+v", name, w)
			case w.To != n2.id || !bytes.Equal(w.ToKey, n2.key.Public().(ed25519.PublicKey)):
				t.Errorf("receiver of %s = %+v", name, w)
			case w.Resource != calls[0].Resource() || w.UID != calls[0].UID || w.Cluster != s.Pin || w.Datacenter != theDatacenter:
				t.Errorf("resource of %s = %+v", name, w)
			case w.Snapshot != map[string]string{"far": "monday"}[name]:
				t.Errorf("snapshot of %s = %q", name, w.Snapshot)
			case w.Unheard:
				t.Errorf("grant of %s names an unheard node", name)
			case w.Transfer != string(id)+"-"+string(rune('1'+i)) || w.Expires != c.EndBy.UnixMilli():
				t.Errorf("grant of %s has id %s and expires at %d", name, w.Transfer, w.Expires)
			}
		}
	})
}

// The source node changes its address between two attempts. The transfer keeps its id.
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
			t.Errorf("first grant %+v, last grant %+v", first, last)
		}
	})
}

// After a restart, the supervisor does not know the transfer address of a silent node before its next beat. A node that
// has sent a beat without an address serves no transfers.
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
					t.Errorf("address of an unheard node = %s, want none", w.Address)
				}
				n1.setSilent(false)
				return writ.Result{Error: writ.Errorf(writ.CodeUnreachable, "the source has not sent its address yet")}
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
		// Retries after random pauses may repeat the call several times before the first beat of its source.
		if w := n2.grants()["copy"]; !slices.Equal(slices.Compact(heard), []bool{false, true}) || w.Address != "n1.example:7450" {
			t.Errorf("source heard = %v, last grant = %+v", heard, w)
		}
		s.wantState(s.submit(`
volume := import("volume")
volume.copy("back", {from: "other", size_gib: 1}, {node: "n1"})
`), writ.RunSucceeded)
		if w := n1.grants()["back"]; w == nil || w.Unheard || w.Address != "" {
			t.Errorf("grant from a node without transfers = %+v", w)
		}
	})
}

func TestCopyNeedsItsSource(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		s.join("n1")
		time.Sleep(2 * time.Second)
		_, calls := s.wantState(s.submit(`
volume := import("volume")
volume.copy("copy", {from: "none", size_gib: 1})
`), writ.RunFailed)
		if !slices.ContainsFunc(calls, func(c *journal.Call) bool { return c.Error != nil && c.Error.Code == writ.CodeResourceUnknown }) {
			t.Errorf("error of the copy = %+v, want RESOURCE_UNKNOWN", calls[0].Error)
		}
	})
}
