package runner_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"writ"
	"writ/internal/test/metricspage"
	"writ/runner"
	"writ/sal"
	"writ/supervisor/nodes"
)

// gauged is a driver for volumes that reports a load.
type gauged struct {
	*driver
	mu    sync.Mutex
	loads map[string]sal.Load // by name
	hangs string              // name of the resource whose load cannot be read
}

func (g *gauged) List(context.Context) ([]writ.ResourceID, error) {
	g.host.mu.Lock()
	defer g.host.mu.Unlock()
	return slices.Collect(maps.Keys(g.host.things)), nil
}

func (g *gauged) Load(ctx context.Context, resource writ.ResourceID) (sal.Load, error) {
	g.mu.Lock()
	load, hangs := g.loads[resource.Name], g.hangs == resource.Name
	g.mu.Unlock()
	switch {
	case hangs:
		<-ctx.Done()
		return load, ctx.Err()
	case resource.Name == "unreadable":
		return load, errors.New("no file")
	}
	return load, nil
}

// Promise: Repair and usage: A node reports the use of processors, the memory and the restarts of its containers and
// machines every half minute.
// How: The kernel counts per cgroup or process; the node reports the mean between two readings in a signed message.
// Also: TestRealRunnerReportsLoads, TestLoadsComeFromTheirNode, TestSamplesCoverADay,
// TestListHasTheLoadOfItsResourcesOnly.
func TestNodeReportsTheLoadOfItsResources(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const uid, next = writ.UID("0192f6c2-0000-7000-8000-0000000000b1"), writ.UID("0192f6c2-0000-7000-8000-0000000000b2")
		g := &gauged{loads: map[string]sal.Load{}}
		n := newFixture(t).fresh(func(r *runner.Runner) {
			g.driver = r.Drivers[0].(*driver)
			r.Drivers = append([]sal.Driver{g}, r.Drivers[1:]...)
		})
		for seq, name := range []string{"busy", "idle", "missing", "unreadable"} {
			job := n.job(seq+1, "volume.create", name, nil)
			n.push(job)
			n.await(job.JobKey)
		}
		// reported returns the loads of the next reports, by UID.
		told := func(busy sal.Load) map[writ.UID]nodes.Load {
			t.Helper()
			g.mu.Lock()
			g.loads["busy"], g.loads["idle"] = busy, sal.Load{UID: "0192f6c2-0000-7000-8000-0000000000c1", Memory: 1}
			g.mu.Unlock()
			n.mu.Lock()
			n.loads = nil
			n.mu.Unlock()
			quiet(30 * time.Second)
			n.mu.Lock()
			defer n.mu.Unlock()
			if len(n.loads) != 1 || n.loads[0].Node != n.member.Node() || n.loads[0].Epoch == 0 || n.loads[0].Incarnation == 0 {
				t.Fatalf("in half a minute it reports %+v", n.loads)
			}
			loads := make(map[writ.UID]nodes.Load)
			for _, l := range n.loads[0].Loads {
				loads[l.UID] = l
			}
			return loads
		}
		at := func(cpu time.Duration) sal.Load {
			return sal.Load{UID: uid, Running: true, CPU: cpu, Memory: 5 << 20, Restarts: 3}
		}
		quiet(10 * time.Second)
		g.mu.Lock()
		g.loads["busy"], g.loads["idle"] = at(90*time.Second), sal.Load{UID: "0192f6c2-0000-7000-8000-0000000000c1"}
		g.mu.Unlock()
		quiet(30 * time.Second)
		if got := told(at(105 * time.Second)); len(got) != 2 || got[uid] != (nodes.Load{UID: uid, Running: true, MilliCPUs: 500, Memory: 5 << 20, Restarts: 3}) {
			t.Errorf("after 15 s of processor time it reports %+v", got)
		}
		if got := told(at(3 * time.Second)); got[uid].MilliCPUs != 100 {
			t.Errorf("after a start of the processes it reports %+v", got)
		}
		other := at(9 * time.Second)
		other.UID = next
		if got := told(other); len(got) != 1 || got[next].UID != "" {
			t.Errorf("after the first reading of a new resource it reports %+v", got)
		}
		other.CPU += 3 * time.Second
		if got := told(other); got[next].MilliCPUs != 100 {
			t.Errorf("of the new resource it reports %+v", got)
		}
		page := metricspage.Read(t, n.runner.Metrics)
		if cpus := page.Sum("writ_runner_resource_cpus"); cpus != 0.1 {
			t.Errorf("the metric of processors is %g", cpus)
		}
		if n := page.Sum("writ_runner_resource_restarts"); n != 3 {
			t.Errorf("the metric of restarts is %g", n)
		}
		g.mu.Lock()
		g.hangs = "busy"
		g.mu.Unlock()
		quiet(time.Minute)
		n.mu.Lock()
		last := n.loads[len(n.loads)-1]
		n.mu.Unlock()
		if len(last.Loads) != 1 || strings.HasSuffix(string(last.Loads[0].UID), "b2") {
			t.Errorf("while a driver hangs it reports %+v", last)
		}
	})
}
