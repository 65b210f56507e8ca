package fleet

import (
	"runtime"
	"sync"
	"testing"
	"time"

	"writ"
	"writ/supervisor/journal"
	"writ/supervisor/nodes"
)

// TestReportOfAnEarlierProcessComesTooLate delays a report while a newer process of its node sends a beat. The report
// must not replace the state after the beat.
func TestReportOfAnEarlierProcessComesTooLate(t *testing.T) {
	t.Parallel()
	for name, apply := range map[string]func(*Fleet) (*sync.Mutex, func()){
		"findings": func(f *Fleet) (*sync.Mutex, func()) {
			r := &writ.Report{Node: "n", Incarnation: 7, Round: 1, Epoch: 5}
			r.Disks = []writ.Disk{{Path: "/a", Bytes: 1}}
			return &f.Findings.mu, func() { f.Findings.Apply(r, 5) }
		},
		"machine": func(f *Fleet) (*sync.Mutex, func()) {
			r := nodes.HostReport{Node: "n", Incarnation: 7, Count: 1, Epoch: 5, Host: writ.Host{Kernel: "6.1.0"}}
			return &f.Machines.mu, func() { f.Machines.Describe(r, 5, time.Now()) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			now := time.Now()
			f := New([]*journal.Node{{Node: writ.Node{ID: "n"}}}, nil, now)
			f.Presence.Beat(writ.Beat{Node: "n", Incarnation: 7, Sequence: 1, Epoch: 5}, 5, now, now)
			blocked, report := apply(f)
			blocked.Lock()
			var done sync.WaitGroup
			done.Go(report)
			yield()
			var shown writ.Node
			done.Go(func() {
				f.Presence.Beat(writ.Beat{Node: "n", Incarnation: 8, Sequence: 1, Epoch: 5}, 5, now, now)
				shown, _ = f.Members.Get("n")
			})
			yield()
			blocked.Unlock()
			done.Wait()
			if later, _ := f.Members.Get("n"); len(later.Disks) != len(shown.Disks) || later.Host != shown.Host {
				t.Errorf("after the beat the node shows %+v, then %+v", shown, later)
			}
		})
	}
}

// yield gives other goroutines the time to reach a lock that they wait for.
func yield() {
	for range 10_000 {
		runtime.Gosched()
	}
}
