package journal_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"writ"
	"writ/internal/test/testenv"
	"writ/supervisor/journal"
)

// Runs with and without a cause that wakes them, in one journal.
func TestEveryRunHasAWakerOrIsNamed(t *testing.T) {
	now := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	planned := func(change func(c *journal.Call)) *journal.Call {
		c := &journal.Call{Call: writ.Call{State: writ.CallPlanned, Operation: "node.ping", Attempt: 1}}
		change(c)
		return c
	}
	sent := func(node writ.NodeID, onLoss string) *journal.Call {
		return planned(func(c *journal.Call) {
			c.State, c.Node, c.NodeName, c.Claimed, c.Ready, c.Options.OnLoss = writ.CallRunning, node, string(node), true, true, onLoss
		})
	}
	ended := planned(func(c *journal.Call) { c.State = writ.CallSucceeded })
	follows := planned(func(c *journal.Call) { c.Node, c.Claimed, c.After = "member", true, []int{1} })
	idle := func(r *journal.Run) { r.Idle = true }
	stopped := func(as writ.RunState, by time.Duration) func(r *journal.Run) {
		return func(r *journal.Run) {
			r.Idle, r.Stop, r.StopState, r.StopBy = true, writ.Errorf(writ.CodeRunCancelled, "told to"), as, r.Deadline.Add(by)
		}
	}
	cases := []struct {
		name  string
		run   func(r *journal.Run)
		calls []*journal.Call
		want  string // expected sleeper, "" for none
	}{
		{"a pass is due", func(*journal.Run) {}, nil, ""},
		{"it has ended", func(r *journal.Run) { r.Idle, r.State = true, writ.RunFailed }, nil, ""},
		{"it is being cancelled", stopped(writ.RunCancelled, -time.Minute), nil, ""},
		{"it is being cancelled until its deadline", stopped(writ.RunCancelled, 0), nil, ""},
		{"it failed and has until its deadline", stopped(writ.RunFailed, 0), nil, "open"},
		{"nothing is open", idle, nil, "open"},
		{"all has ended", idle, []*journal.Call{ended}, "open"},
		{"one is out at a member", idle, []*journal.Call{sent("member", "")}, ""},
		{"one is out at a node that was removed", idle, []*journal.Call{sent("removed", "")}, "removed"},
		{"one waits for a node that was removed", idle, []*journal.Call{sent("removed", "wait")}, "removed"},
		{"one waits for a signature", idle, []*journal.Call{sent("removed", "replace")}, ""},
		{"one waits for an existing signature", idle, []*journal.Call{sent("gone", "replace")}, "gone"},
		{"one waits for a signature about an unknown node", idle, []*journal.Call{sent("nobody", "replace")}, "nobody"},
		{"one was sent to an unknown node", idle, []*journal.Call{sent("nobody", "")}, "nobody"},
		{"one waits for room on a member", idle, []*journal.Call{planned(func(c *journal.Call) { c.Node, c.Claimed, c.Ready = "member", true, true })}, ""},
		{"one waits for room on a node that was removed", idle,
			[]*journal.Call{planned(func(c *journal.Call) { c.Node, c.NodeName, c.Claimed, c.Ready = "removed", "removed", true, true })}, "removed"},
		{"one waits for a time", idle, []*journal.Call{planned(func(c *journal.Call) { c.Claimed, c.RetryAt = true, now })}, ""},
		{"one waits for its resource", idle, []*journal.Call{planned(func(c *journal.Call) { c.RetryAt = now })}, ""},
		{"one has no cause to wait", idle, []*journal.Call{planned(func(c *journal.Call) { c.Claimed = true })}, "each other"},
		{"one follows another", idle, []*journal.Call{sent("member", ""), follows}, ""},
		{"one follows another that has ended", idle, []*journal.Call{ended, follows, sent("member", "")}, "ended"},
		{"two wait for each other", idle, []*journal.Call{planned(func(*journal.Call) {}), planned(func(*journal.Call) {})}, "each other"},
		{"one waits with another that has a time", idle,
			[]*journal.Call{planned(func(c *journal.Call) { c.RetryAt = now }), planned(func(*journal.Call) {})}, ""},
	}
	stores(t, func(t *testing.T, path string) {
		j := open(t, path)
		names := make(map[writ.RunID]string)
		write(t, j, func(tx *journal.Tx) error {
			for node, admission := range map[writ.NodeID]writ.Admission{
				"member": writ.AdmissionApproved, "removed": writ.AdmissionRemoved, "gone": writ.AdmissionRemoved,
			} {
				n := &journal.Node{Node: writ.Node{ID: node, Name: string(node), Admission: admission, Gone: node == "gone"}, PublicKey: []byte(node)}
				if err := tx.PutNode(n); err != nil {
					return err
				}
			}
			for i, tt := range cases {
				r := aRun(tt.name)
				r.Deadline = r.Deadline.Add(time.Duration(i%3) * time.Second) // some are equal
				tt.run(r)
				names[r.ID] = tt.name
				if _, _, err := tx.AddRun(r, 1, []byte("signed")); err != nil {
					return err
				}
				for seq, c := range tt.calls {
					c := *c
					c.Seq = seq + 1
					c.In(r)
					if err := tx.PutCall(&c); err != nil {
						return err
					}
				}
			}
			return nil
		})
		isMember := func(id writ.NodeID) bool { return id == "member" }
		all := func(tx *journal.Tx, max int) (found []journal.Sleeper, looks int, err error) {
			for at := (journal.Looked{}); ; {
				some, next, err := tx.Sleepers(isMember, at, max)
				found, at = append(found, some...), next
				if looks++; err != nil || next == (journal.Looked{}) {
					return found, looks, err
				}
			}
		}
		for _, max := range []int{1, 2, 1000} { // checked at once, or in several steps
			t.Run(fmt.Sprint(max), func(t *testing.T) {
				found := make(map[string]string)
				looks := 0
				err := j.Read(t.Context(), func(tx *journal.Tx) error {
					some, n, err := all(tx, max)
					for _, s := range some {
						found[names[s.Run]] += s.Why
					}
					looks = n
					if byItself, other := tx.AllSleepers(); other != nil || !slices.Equal(byItself, some) {
						t.Errorf("sleepers by the nodes in the journal = %v, %v; want %v", byItself, other, some)
					}
					return err
				})
				if err != nil {
					t.Fatal(err)
				}
				if max == 1 && looks < len(cases)/2 {
					t.Errorf("all were looked at in %d looks", looks)
				}
				for _, tt := range cases {
					if got := found[tt.name]; got != "" != (tt.want != "") || tt.want != "" && !testenv.Mentions(got, tt.want) {
						t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
					}
				}
			})
		}
	})
}
