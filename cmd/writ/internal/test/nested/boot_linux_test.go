package nested

import (
	"context"
	"errors"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"writ/cmd/writ/internal/test/testcluster"
	"writ/efi/libraries"
	"writ/efi/modules"
	"writ/internal/test/testenv"
	"writ/internal/test/vmmstub/guest"
)

// inside marks a process on the emulated machine.
var inside = flag.Bool("inside", false, "use the node of this machine; the test itself passes it")

const (
	// bootLimit limits one run of the emulated machine, which takes one to three minutes on an idle host.
	bootLimit = 15 * time.Minute
	// boots is the maximum number of attempts. The guest on an emulated processor hangs occasionally.
	boots = 2
	// diskBytes is the size of its sparse disk.
	diskBytes = 8 << 30
)

// nodeModules lists the modules for the disk and for drivers of machines and networks. The emulated machine cannot load
// modules on demand.
var nodeModules = []string{
	"virtio_pci", "virtio_blk", "btrfs", "kvm_amd", "tun", "bridge", "veth", "nf_tables", "nft_ct", "nft_chain_nat", "nft_nat", "nft_masq", "nft_objref",
	"nft_meta_bridge", "nft_limit", "nft_reject_inet", "nft_fib_inet",
}

func TestMain(m *testing.M) {
	code := m.Run()
	_ = testcluster.RemoveBinaries() // on failure, files remain in the system's temporary directory
	os.Exit(code)
}

// TestGuestRunsOnCloudHypervisor starts a distribution's guest with the real cloud-hypervisor and runs every machine
// operation that the guest can observe.
func TestGuestRunsOnCloudHypervisor(t *testing.T) {
	if *inside {
		useMachine(t)
		return
	}
	testenv.Nightly(t, "TestAScriptWorksOnRealDrivers of package cmd/writ boots the same guest behind a stub of cloud-hypervisor")
	qemu, kernel := testenv.Need(t, "qemu-system-x86_64"), testenv.FullKernel(t)
	program := guest.Program{
		Path: buildStatic(t), Args: []string{"-test.run=^" + t.Name() + "$", "-test.v", "-test.timeout=0", "-inside"},
		Kernel: kernel, Modules: readModules(t, kernel.Modules), Files: nodeFiles(t),
	}.Build(t)
	for boot := 1; ; boot++ {
		said, hung, err := start(t, qemu, program)
		if hung && boot < boots {
			t.Logf("start %d did not end within %s; output:\n%s", boot, bootLimit, said)
			continue
		}
		if err != nil || !strings.Contains(said, guest.ProgramText+"\n") || strings.Contains(said, "--- SKIP") {
			t.Fatalf("on the emulated machine: %v\n%s", err, said)
		}
		t.Logf("on the emulated machine:\n%s", said)
		return
	}
}

// start runs the emulated machine until it powers off and returns its console output. hung reports whether the machine
// was killed at its limit.
func start(t *testing.T, qemu string, g guest.Guest) (said string, hung bool, err error) {
	t.Helper()
	limited, stop := context.WithTimeout(t.Context(), bootLimit)
	defer stop()
	out, err := exec.CommandContext(limited, qemu, "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
		"-serial", "stdio", "-machine", "q35", "-accel", "tcg,thread=multi", "-cpu", "EPYC,+svm,+npt", "-smp", "2", "-m", "3G",
		"-drive", "if=none,id=data,format=raw,file="+makeDisk(t), "-device", "virtio-blk-pci,drive=data", "-kernel", g.Kernel, "-initrd", g.Initramfs, "-append", guest.Cmdline).CombinedOutput()
	return strings.ReplaceAll(string(out), "\r", ""), limited.Err() != nil, err
}

// makeDisk creates the disk of the emulated machine and returns its path. With a disk, files with the memory of
// snapshots do not count as memory of the processes.
func makeDisk(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "disk")
	if err := errors.Join(os.WriteFile(path, nil, 0o600), os.Truncate(path, diskBytes)); err != nil {
		t.Fatal(err)
	}
	if said, err := exec.Command(testenv.Need(t, "mkfs.btrfs"), "-q", path).CombinedOutput(); err != nil {
		t.Fatalf("make a file system: %v\n%s", err, said)
	}
	return path
}

// buildStatic builds this test as a static program.
func buildStatic(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "test")
	build := exec.Command("go", "test", "-c", "-trimpath", "-ldflags=-s -w", "-o", path, "writ/cmd/writ/internal/test/nested")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if said, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the test: %v\n%s", err, said)
	}
	return path
}

// readModules returns nodeModules with their dependencies.
func readModules(t *testing.T, dir string) (all []guest.Module) {
	t.Helper()
	index, err := modules.Scan(os.DirFS(dir))
	if err != nil {
		t.Fatal(err)
	}
	found, err := index.Closure(nodeModules...)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range found {
		object, err := index.Object(m)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, guest.Module{Name: m.Name, Object: object})
	}
	return all
}

// nodeFiles returns the programs of the node with their libraries, and the guest to start.
func nodeFiles(t *testing.T) map[string][]byte {
	t.Helper()
	inner := guest.Build(t)
	files := map[string][]byte{}
	add := func(name, path string) {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		files[name] = text
	}
	add(strings.TrimPrefix(kernelFile, "/"), inner.Kernel)
	add(strings.TrimPrefix(initramfsFile, "/"), inner.Initramfs)
	var programs []libraries.Program
	for name, path := range map[string]string{
		"cloud-hypervisor": testenv.Need(t, "cloud-hypervisor"), "writ": testcluster.Binary(t), "busybox": testenv.Need(t, "busybox"),
	} {
		add("bin/"+name, path)
		programs = append(programs, libraries.Program{Name: "/bin/" + name, Data: files["bin/"+name]})
	}
	needed, err := libraries.Closure(os.DirFS("/"), programs)
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range needed.Libraries {
		files[strings.TrimPrefix(l.Name, "/")] = l.Data
	}
	return files
}
