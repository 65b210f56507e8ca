package evaluator

import (
	"os/exec"
	"testing"

	"golang.org/x/sys/unix"
)

// Other work precedes scripts that compute continuously. A kernel without slices reports none.
func TestLongScriptYields(t *testing.T) {
	c := exec.Command("sleep", "60")
	c.SysProcAttr = attributes()
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Process.Kill()
		_ = c.Wait()
	})
	before, err := unix.SchedGetAttr(0, 0)
	if err != nil {
		t.Fatal(err)
	}
	yieldTo(c.Process.Pid)
	after, err := unix.SchedGetAttr(c.Process.Pid, 0)
	if err != nil {
		t.Fatal(err)
	}
	if want := min(before.Nice+10, 19); after.Nice != want {
		t.Errorf("its niceness is %d beside %d, want %d", after.Nice, before.Nice, want)
	}
	if before.Runtime > 0 && after.Runtime <= before.Runtime {
		t.Errorf("its slices are %d ns beside %d, want longer ones", after.Runtime, before.Runtime)
	}
}
