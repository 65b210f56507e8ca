package containerd

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/containerd/containerd/api/services/tasks/v1"
	"github.com/containerd/containerd/api/types/task"

	"writ"
	"writ/internal/test/testenv"
	"writ/sal/saltest"
)

// fenced fences a container and checks that nothing of it runs, now and after Keep.
func (b *fixture) fenced(name string) {
	b.Helper()
	resource := saltest.Resource(writ.KindContainer, name)
	daemon, err := b.driver.open()
	if err != nil {
		b.Fatal(err)
	}
	runs := func() bool {
		all, err := daemon.TaskService().List(b.driver.in(b.Context()), &tasks.ListTasksRequest{})
		if err != nil {
			b.Fatal(err)
		}
		return slices.ContainsFunc(all.Tasks, func(p *task.Process) bool { return p.Status == task.Status_RUNNING })
	}
	networks := b.driver.Networks
	b.driver.Networks = nil // a lost node may not have its overlay
	if err := b.driver.Fence(b.Context(), resource); err != nil || runs() {
		b.Errorf("fenced: %v, a process runs: %v", err, runs())
	}
	b.driver.Networks = networks
	for range 2 {
		if _, err := b.driver.Keep(b.Context(), resource); err != nil || runs() {
			b.Errorf("kept: %v, a process runs: %v", err, runs())
		}
	}
}

// A lost node only stops containers. Their replacements may run elsewhere already.
func TestFenceStartsNoReplacedContainer(t *testing.T) {
	t.Parallel()
	b := newFixture(t, "")
	b.write("ok", "")
	starts := func() int {
		text, err := os.ReadFile(b.www("starts"))
		if err != nil {
			t.Fatal(err)
		}
		return strings.Count(string(text), "old")
	}
	for _, step := range []string{"record that the container is checking", "wait until it is healthy", "delete the container"} {
		b.must("container.create", "web", checked("echo old >>/www/starts; "+webServer, page("ok")))
		before := starts()
		b.interrupted(b.request("container.create", "web", checked("echo new >>/www/starts; "+webServer, page("ok")), nil), step)
		b.fenced("web")
		if after := starts(); after != before {
			t.Errorf("before %s: the replaced container was started %d times", step, after-before)
		}
		b.must("container.delete", "web", nil)
	}
	if left := traces(t, b.driver, b.daemon, b.host); len(left) > 0 {
		t.Errorf("left are %v", left)
	}
}

func TestFenceEndsBothSidesOfHandover(t *testing.T) {
	testenv.Nightly(t, "TestFenceStartsNoReplacedContainer of package sal/containerd")
	b := newPublishing(t)
	for i, step := range handoverSteps {
		b.must("container.create", "web", serving("old"))
		b.interrupted(b.request("container.create", "web", serving("new"), nil), step)
		b.fenced("web")
		if b.owners() != 1 {
			t.Errorf("before %s: %d network namespaces", step, b.owners())
		}
		b.must("container.delete", "web", nil)
		if left := traces(t, b.driver, b.daemon, b.host); len(left) > 0 || b.owners() != 0 {
			t.Errorf("%d, before %s: left are %v and %d network namespaces", i, step, left, b.owners())
		}
	}
}
