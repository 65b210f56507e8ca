package runner_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"writ"
	"writ/internal/fair"
	"writ/runner"
	"writ/sal"
)

// hang makes every operation on resources whose names have the prefix block until its deadline.
func (n *node) hang(prefix string) {
	n.host.setPause(func(ctx context.Context, step string, r sal.Request) error {
		if step == begun && strings.HasPrefix(r.Resource.Name, prefix) {
			<-ctx.Done()
			return ctx.Err()
		}
		return nil
	})
}

// of makes a job one of a project, with its own run.
func (s *fixture) of(project writ.ProjectID, more ...func(j *writ.Job)) func(j *writ.Job) {
	return func(j *writ.Job) {
		j.Project, j.Payload, j.Run = project, s.others[project], writ.RunIDOf(s.others[project])
		j.EndBy = j.StartBy + time.Hour.Milliseconds()
		for _, change := range more {
			change(j)
		}
	}
}

func fetching(j *writ.Job) {
	j.Args = map[string]any{"url": "https://example.com/" + j.Name, "sha256": strings.Repeat("0", 64), "format": "raw"}
}

// wide returns a node with the default number of slots, and images.
func wide(s *fixture) *node {
	h := newHost()
	dir := s.TempDir()
	s.join(dir)
	return s.start(dir, h, func(r *runner.Runner) {
		r.Slots = runner.DefaultSlots
		r.Drivers = append(h.drivers(), &driver{h, "image"})
	})
}

// Promise: Limits and shares: Hanging downloads occupy no slot of a node, and hanging calls of one project leave
// slots for other projects.
// How: Transfers have their own slots; slots are shared by project, time and weight, and one project gets three
// quarters of the free slots.
// Also: TestLongJobsLeaveSlotsToOtherProjects, TestSlotsAreSharedByTimeAndWeight,
// TestAbsentCallsLeaveCapacityToOtherProjects, TestSpareCapacityGoesToProjectsWithTheLeast,
// TestWeightGivesProjectLargerShare.
func TestHangingFetchesHoldNoSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := wide(newFixture(t))
		n.hang("hangs")
		const hanging = 130
		for i := range hanging {
			n.push(n.job(i+1, "image.fetch", fmt.Sprint("hangs-", i), n.of(shopProject, fetching)))
		}
		quiet(10 * time.Second)
		for i := range 2 * runner.DefaultSlots {
			n.push(n.job(i+1, "volume.create", fmt.Sprint("works-", i), n.of(labProject)))
		}
		fetch := n.job(1000, "image.fetch", "works", n.of(labProject, fetching))
		n.push(fetch)
		ours := n.job(1000, "volume.create", "works", n.of(shopProject))
		n.push(ours)
		quiet(time.Second)
		for i := range 2 * runner.DefaultSlots {
			key := n.job(i+1, "volume.create", "", n.of(labProject)).JobKey
			if got := n.got(key); len(got) != 1 || got[0].Error != nil {
				t.Fatalf("job %d of another project: %+v", i+1, got)
			}
		}
		for what, j := range map[string]*writ.Job{"a fetch of another project": fetch, "a job of the same project": ours} {
			if got := n.got(j.JobKey); len(got) != 1 || got[0].Error != nil {
				t.Errorf("%s: %+v", what, got)
			}
		}
	})
}

func TestLongJobsLeaveSlotsToOtherProjects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := wide(newFixture(t))
		n.hang("hangs")
		for i := range 2 * runner.DefaultSlots {
			n.push(n.job(i+1, "volume.create", fmt.Sprint("hangs-", i), n.of(shopProject)))
		}
		quiet(time.Second)
		if got, want := n.host.busy(), fair.Most(runner.DefaultSlots); got != want {
			t.Errorf("%d jobs of the project act, want %d", got, want)
		}
		for i := range runner.DefaultSlots / 2 {
			n.push(n.job(i+1, "volume.create", fmt.Sprint("works-", i), n.of(labProject)))
		}
		quiet(time.Second)
		for i := range runner.DefaultSlots / 2 {
			if got := n.got(n.job(i+1, "volume.create", "", n.of(labProject)).JobKey); len(got) != 1 || got[0].Error != nil {
				t.Fatalf("job %d of another project: %+v", i+1, got)
			}
		}
	})
}

// TestSlotsAreSharedByTimeAndWeight has three projects request more than a node can do, at the rate of a supervisor.
// Their jobs have different durations, and one project has weight two.
func TestSlotsAreSharedByTimeAndWeight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFixture(t).fresh(nil) // with 4 slots, and 12 jobs in hand
		takes := map[writ.ProjectID]time.Duration{shopProject: 9 * time.Second, labProject: 5 * time.Second, thirdProject: time.Second}
		weights := map[writ.ProjectID]int{labProject: 2}
		spent := map[writ.ProjectID]time.Duration{}
		n.host.setPause(func(_ context.Context, step string, r sal.Request) error {
			if step == begun {
				time.Sleep(takes[r.Resource.Project])
				n.host.mu.Lock()
				defer n.host.mu.Unlock()
				spent[r.Resource.Project] += takes[r.Resource.Project]
			}
			return nil
		})
		ctx, stop := context.WithTimeout(t.Context(), 10*time.Minute)
		defer stop()
		var group sync.WaitGroup
		for project := range takes {
			for line := range 4 { // jobs in flight per project
				group.Go(func() {
					for i := 0; ctx.Err() == nil; i++ {
						j := n.job(4*i+line+1, "volume.create", fmt.Sprint("v", line, "-", i), n.of(project, func(j *writ.Job) { j.Weight = weights[project] }))
						n.push(j)
						for len(n.got(j.JobKey)) == 0 && ctx.Err() == nil {
							time.Sleep(250 * time.Millisecond)
						}
					}
				})
			}
		}
		<-ctx.Done()
		group.Wait()
		n.host.mu.Lock()
		defer n.host.mu.Unlock()
		for project, weight := range map[writ.ProjectID]float64{shopProject: 1, labProject: 2, thirdProject: 1} {
			want := 40 * 60 * weight / 4 // seconds of four slots in ten minutes
			if got := spent[project].Seconds(); got < 0.85*want || got > 1.15*want {
				t.Errorf("jobs that take %s got %.0f s, want about %.0f; all: %v", takes[project], got, want, spent)
			}
		}
	})
}
