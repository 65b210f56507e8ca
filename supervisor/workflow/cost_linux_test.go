package workflow

import (
	"fmt"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"writ"
	"writ/scripts"
	"writ/supervisor/journal"
)

// steps are runs of n calls, and the states of their calls after a step.
var steps = map[string]struct {
	make func(t *testing.T, p *planned, n int)
	want writ.CallState // of the last call
}{
	"removals of resources and their users": {func(t *testing.T, p *planned, n int) {
		for i := range n / 2 {
			var mounts []any
			for j := range 8 {
				mounts = append(mounts, map[string]any{"volume": fmt.Sprint("data-", (i+j)%(n/2)), "path": fmt.Sprint("/data-", j)})
			}
			name := fmt.Sprint("data-", i)
			p.resource("web", "container.create", writ.KindContainer, name, map[string]any{"volumes": mounts})
			p.resource("web", "volume.create", writ.KindVolume, name, map[string]any{"size_gib": int64(1)})
			p.call(t, "container.delete", name, nil)
			p.call(t, "volume.delete", name, nil)
		}
	}, writ.CallPlanned},
	"removals beside users of others": {func(t *testing.T, p *planned, n int) {
		for i := range n {
			name := fmt.Sprint("data-", i)
			mount := []any{map[string]any{"volume": "other-" + name, "path": "/data"}}
			p.resource("shop", "container.create", writ.KindContainer, name, map[string]any{"volumes": mount})
			p.resource("web", "volume.create", writ.KindVolume, name, map[string]any{"size_gib": int64(1)})
			p.call(t, "volume.delete", name, nil)
		}
	}, writ.CallPlanned},
	"changes of one resource, after the first": {func(t *testing.T, p *planned, n int) {
		p.resource("web", "volume.create", writ.KindVolume, "data", map[string]any{"size_gib": int64(1)})
		for range n {
			p.call(t, "volume.resize", "data", map[string]any{"size_gib": int64(1)})
		}
		p.allowAll()
		if err := arrange(p.Step, p); err != nil {
			t.Fatal(err)
		}
		p.calls.at(1).State = writ.CallSucceeded
	}, writ.CallPlanned},
	"conflicts in one group": {func(t *testing.T, p *planned, n int) {
		p.call(t, "network.create", "lan", nil)
		for i := range n {
			c := p.call(t, "container.create", fmt.Sprint("box-", i), nil, 1)
			c.Options.Labels = map[string]string{"rack": fmt.Sprint(i)}
		}
	}, writ.CallFailed},
	"groups that join": {func(t *testing.T, p *planned, n int) {
		var shared []int
		for i := range n / 2 {
			p.call(t, "volume.create", fmt.Sprint("data-", i), map[string]any{"size_gib": int64(1)})
			if i < 30 {
				shared = append(shared, i+1)
			}
		}
		for i := range n/2 - 30 {
			p.call(t, "container.create", fmt.Sprint("box-", i), nil, append(slices.Clone(shared), i+31)...)
		}
	}, writ.CallPlanned},
	"groups that wait for the next one": {func(t *testing.T, p *planned, n int) {
		for i := range n / 2 {
			p.call(t, "network.create", fmt.Sprint("lan-", i), nil)
		}
		for i := range n / 2 { // in reverse order: the database of the last network has no other need
			after := []int{n/2 - i}
			if i > 0 {
				after = append(after, n/2+i)
			}
			p.call(t, "herodb.create", fmt.Sprint("db-", i), map[string]any{"size_gib": int64(1)}, after...)
		}
		p.busy = writ.ResourceID{Project: "p", Kind: writ.KindHeroDB, Name: "db-0"}
	}, writ.CallPlanned},
	"failures of failures": {func(t *testing.T, p *planned, n int) {
		p.call(t, "container.delete", "box-0", nil).State = writ.CallFailed
		p.calls.at(1).Error = writ.Errorf(writ.CodeDriverFailed, "no disk")
		for i := range n {
			p.call(t, "container.create", fmt.Sprint("box-", i), nil, i+1)
		}
	}, writ.CallFailed},
	"volumes without a node": {func(t *testing.T, p *planned, n int) {
		silent := p.Nodes.(oneNode)
		silent.Liveness = writ.LivenessSilent
		p.Nodes = silent
		for i := range n {
			p.call(t, "volume.create", fmt.Sprint("data-", i), map[string]any{"size_gib": int64(1)})
			p.run.Waiting = append(p.run.Waiting, i+1)
		}
	}, writ.CallPlanned},
}

// TestCostOfStepGrowsWithItsCalls counts the reads of steps, and compares the CPU time of two sizes.
//
// Promise: Speed and storage: The time of a step grows with its calls and the resources of its project, and not with
// their product.
// How: Indexes of the calls by resource and of the resources by their use; groups are sets that share their paths.
// Also: TestCostOfPreviewGrowsWithItsCalls.
func TestCostOfStepGrowsWithItsCalls(t *testing.T) {
	for name, step := range steps {
		t.Run(name, func(t *testing.T) {
			growsWithCalls(t, func(n int) func() {
				p := newPlanned()
				step.make(t, p, n)
				p.allowAll()
				p.reads = 0
				return func() {
					if err := arrange(p.Step, p); err != nil {
						t.Fatal(err)
					}
					if last := p.calls.at(len(p.calls.all)); last.State != step.want {
						t.Errorf("the last of %d calls is %s: %v", n, last.State, last.Error)
					}
					if p.reads > 5*n {
						t.Errorf("%d calls read %d resources", n, p.reads)
					}
				}
			})
		})
	}
}

func TestCostOfPreviewGrowsWithItsCalls(t *testing.T) {
	store, err := journal.Open(t.Context(), filepath.Join(t.TempDir(), "journal.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	machine := func(i int, disk int64) writ.ProposedCall {
		return writ.ProposedCall{Operation: "machine.create", Name: fmt.Sprint("box-", i), After: []int{int(disk)}, Args: map[string]any{
			"cpus": int64(1), "memory_mib": int64(64), "disks": []any{map[string]any{"ref": disk}},
		}}
	}
	volume := func(i int) writ.ProposedCall {
		return writ.ProposedCall{Operation: "volume.create", Name: fmt.Sprint("data-", i), Args: map[string]any{"size_gib": int64(1)}}
	}
	for name, plan := range map[string]struct {
		call func(i int) writ.ProposedCall
		want writ.Action // of the last call
	}{
		"machines with a disk each": {func(i int) writ.ProposedCall {
			if i%2 == 0 {
				return volume(i)
			}
			return machine(i, int64(i))
		}, writ.ActionCreate},
		"machines with one disk": {func(i int) writ.ProposedCall {
			if i == 0 {
				return volume(i)
			}
			return machine(i, 1)
		}, writ.ActionRefused},
	} {
		t.Run(name, func(t *testing.T) {
			growsWithCalls(t, func(n int) func() {
				p := newPlanned()
				proposal := &writ.Proposal{Project: "p", Deployment: "web"}
				for i := range n {
					proposal.Calls = append(proposal.Calls, plan.call(i))
				}
				calls, err := ReadProposal(proposal)
				if err != nil {
					t.Fatal(err)
				}
				p.run = ProposalRun(proposal, calls, "p", 0)
				return func() {
					err := store.Read(t.Context(), func(tx *journal.Tx) error {
						d, err := NewDraft(tx, p.Step, calls)
						if err != nil {
							return err
						}
						if err := d.CarryOut(t.Context(), nil); err != nil {
							return err
						}
						if last := d.Seen[n-1]; last.Action != plan.want {
							t.Errorf("the last of %d calls: %s %v", n, last.Action, last.Error)
						}
						return nil
					})
					if err != nil {
						t.Fatal(err)
					}
				}
			})
		})
	}
}

// growsWithCalls compares the CPU time of work with 250 calls and with 2,000, the maximum of open calls. With a linear cost it
// takes eight times as long, and 64 times if each call is compared with all others.
func growsWithCalls(t *testing.T, make func(n int) (work func())) {
	t.Helper()
	const few, many, most = 250, scripts.MaxOpenCalls, 30
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // the collector uses any thread
	cost := func(n int) time.Duration {
		work := make(n)
		before := threadCPU(t)
		work()
		return threadCPU(t) - before
	}
	small, large := cost(few), cost(many)
	for range 4 { // other programs disturb the caches
		small = min(small, cost(few))
	}
	if t.Logf("%v for %d calls, %v for %d", small, few, large, many); large > most*small {
		t.Errorf("%d calls take %v of CPU time, %d take %v", few, small, many, large)
	}
}

func threadCPU(t *testing.T) time.Duration {
	t.Helper()
	var at unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &at); err != nil {
		t.Fatal(err)
	}
	return time.Duration(at.Nano())
}
