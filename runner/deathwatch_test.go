package runner_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"writ"
	"writ/runner"
	"writ/sal"
)

// mortal is a driver whose volumes are served by processes that the test kills. Keep starts a new one unless backs is
// set.
type mortal struct {
	watchful
	mu     sync.Mutex
	alive  map[string]chan struct{} // by name of the resource; closed when the process exits
	kept   map[string]int           // calls of Keep that found no process
	backs  bool                     // Keep does not restart a process, as during a backoff
	opened int
}

func (m *mortal) start(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.alive[name] = make(chan struct{})
}

// kill ends the process of a resource.
func (m *mortal) kill(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	close(m.alive[name])
	delete(m.alive, name)
}

func (m *mortal) Keep(_ context.Context, r writ.ResourceID) ([]sal.Drift, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.alive[r.Name] != nil {
		return nil, nil
	}
	m.kept[r.Name]++
	if m.backs {
		return []sal.Drift{{What: "it is started later"}}, nil
	}
	m.alive[r.Name] = make(chan struct{})
	return []sal.Drift{{What: "its process had died", Mended: true}}, nil
}

func (m *mortal) Process(_ context.Context, r writ.ResourceID) (sal.Process, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.alive[r.Name] == nil {
		return nil, nil
	}
	m.opened++
	return doomed{m, m.alive[r.Name]}, nil
}

// open returns the number of processes that are held open.
func (m *mortal) open() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.opened
}

func (m *mortal) keptDead(name string) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.kept[name]
}

type doomed struct {
	of  *mortal
	end chan struct{}
}

func (d doomed) Wait(ctx context.Context) error {
	select {
	case <-d.end:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (d doomed) Close() {
	d.of.mu.Lock()
	defer d.of.mu.Unlock()
	d.of.opened--
}

// Promise: Repair and usage: writ reacts to the death of a machine's or database's process within a second.
// How: The runner waits for each process by a pidfd; drivers keep their growing pauses.
// Also: TestDeathDuringJobIsPostponed, TestEndOfProcessIsNoticed, TestProcessOfMachineIsWaitedFor.
func TestDeadProcessIsRepairedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &mortal{alive: map[string]chan struct{}{}, kept: map[string]int{}}
		n := newFixture(t).fresh(func(r *runner.Runner) {
			m.driver = r.Drivers[0].(*driver)
			r.Drivers = append([]sal.Driver{m}, r.Drivers[1:]...)
		})
		for seq, name := range []string{"v", "w"} {
			m.start(name)
			job := n.job(seq+1, "volume.create", name, nil)
			n.push(job)
			n.await(job.JobKey)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if got := m.open(); got != 2 { // since the end of the jobs
			t.Fatalf("%d processes are watched", got)
		}
		m.kill("v")
		time.Sleep(time.Second)
		synctest.Wait()
		if got := m.keptDead("v"); got != 1 {
			t.Errorf("within a second it was looked after %d times", got)
		}
		if r := n.lastReport(); r.Mended != 1 {
			t.Errorf("within a second %d repairs are reported", r.Mended)
		}

		// The new process is watched as well. A process that the driver does not restart yet causes no repeated calls.
		m.mu.Lock()
		m.backs = true
		m.mu.Unlock()
		m.kill("v")
		time.Sleep(time.Second)
		synctest.Wait()
		if got := m.keptDead("v"); got != 2 {
			t.Errorf("within a second of its second death it was looked after %d times", got-1)
		}
		time.Sleep(27 * time.Second)
		synctest.Wait()
		if got := m.keptDead("v"); got > 3 {
			t.Errorf("it backs off, and was looked after %d times", got)
		}
		if got := m.open(); got != 1 {
			t.Errorf("%d processes are watched", got)
		}
		n.stop()
		if got := m.open(); got != 0 {
			t.Errorf("%d processes are held after the end", got)
		}
	})
}

// An exit during a job on the resource is handled when the job ends.
func TestDeathDuringJobIsPostponed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &mortal{alive: map[string]chan struct{}{}, kept: map[string]int{}}
		n := newFixture(t).fresh(func(r *runner.Runner) {
			m.driver = r.Drivers[0].(*driver)
			r.Drivers = append([]sal.Driver{m}, r.Drivers[1:]...)
		})
		m.start("v")
		job := n.job(1, "volume.create", "v", nil)
		n.push(job)
		n.await(job.JobKey)
		time.Sleep(time.Second)
		released := make(chan struct{})
		n.host.mu.Lock()
		n.host.pause = func(_ context.Context, step string, _ sal.Request) error {
			if step == begun {
				m.kill("v")
				time.Sleep(2 * time.Second)
				close(released)
			}
			return nil
		}
		n.host.mu.Unlock()
		job = n.job(2, "volume.create", "v", nil)
		n.push(job)
		<-released
		time.Sleep(time.Second)
		synctest.Wait()
		if got := m.keptDead("v"); got != 1 {
			t.Errorf("a second after the job it was looked after %d times", got)
		}
	})
}
