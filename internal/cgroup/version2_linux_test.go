package cgroup_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"writ/internal/test/testenv"
	"writ/internal/test/vmmstub/guest"
)

// On a kernel with its controllers in version 1, version 2 has no controllers. So the tests above run again in a real
// guest in QEMU, whose kernel uses version 2.
//
// Promise: Machines and the overlay: The process of a machine has limits of memory, processors and threads, and an
// excess of memory kills only this process.
// How: Each has its own cgroup, version 1 or 2, from its start until its deletion; the kill is reported.
// Also: TestMachineProcessHasItsOwnCgroup, TestOnlyTheOversizeProcessIsKilled, TestAProcessWithoutAGroupGetsIntoOne,
// TestAProcessOverItsMemoryLimitIsKilledAlone, TestAForkBombEnds, TestABusyProcessGetsItsShareOfProcessors.
func TestGroupsOfVersion2BoundAsWell(t *testing.T) {
	t.Parallel()
	testenv.Nightly(t, "the same on the hierarchy of this machine")
	qemu := testenv.Need(t, "qemu-system-x86_64")
	tests := filepath.Join(t.TempDir(), "tests")
	build := exec.Command("go", "test", "-c", "-trimpath", "-ldflags=-s -w", "-o", tests, "writ/internal/cgroup")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if said, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the tests: %v\n%s", err, said)
	}
	g := guest.Program{Path: tests, Args: []string{"-test.run=Process|ForkBomb", "-test.v"}}.Build(t)
	said, err := exec.CommandContext(t.Context(), qemu, "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot", "-serial", "stdio",
		"-machine", "pc", "-accel", "tcg", "-cpu", "max", "-m", "512", "-kernel", g.Kernel, "-initrd", g.Initramfs, "-append", guest.Cmdline).CombinedOutput()
	text := strings.ReplaceAll(string(said), "\r", "")
	if err != nil || !strings.Contains(text, guest.ProgramText+"\n") || strings.Contains(text, "SKIP") || strings.Count(text, "--- PASS") < 5 {
		t.Fatalf("in the guest: %v\n%s", err, text)
	}
	t.Logf("in the guest:\n%s", text)
}
