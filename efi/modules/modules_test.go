package modules

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"writ"
	"writ/internal/test/testenv"
)

// kernel returns the index of an imaginary kernel.
func kernel(t *testing.T) *Index {
	t.Helper()
	x, err := Open(fstest.MapFS{
		"modules.builtin": {Data: []byte("kernel/drivers/nvme/host/nvme.ko\n")},
		"modules.dep": {Data: []byte("kernel/net/virtio_net.ko: kernel/net/net_failover.ko kernel/net/failover.ko kernel/virtio.ko\n" +
			"kernel/net/net_failover.ko: kernel/net/failover.ko\nkernel/net/failover.ko:\nkernel/virtio.ko: kernel/virtio_ring.ko\nkernel/virtio_ring.ko:\n" +
			"kernel/fs/btrfs.ko: kernel/lib/libcrc32c.ko\nkernel/lib/libcrc32c.ko:\nkernel/crypto/crc32c-intel.ko:\nkernel/late.ko:\n" +
			"kernel/a.ko: kernel/b.ko\nkernel/b.ko: kernel/a.ko\nkernel/hole.ko: kernel/missing.ko\n")},
		"modules.alias":   {Data: []byte("# made by depmod\nalias virtio:d00000001v* virtio_net\nalias fs-btrfs btrfs\nalias crypto-crc32c crc32c_intel\nalias pci:v*d*sv*sd*bc01sc06i01* late\nalias of:N*T*Cfoo,b[ae]r/* late\n")},
		"modules.softdep": {Data: []byte("softdep btrfs pre: crypto-crc32c pre: crypto-absent post: late\n")},
	})
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func names(modules []*Module) string {
	var all []string
	for _, m := range modules {
		all = append(all, m.Name)
	}
	return strings.Join(all, " ")
}

func TestAClosureCanBeLoadedInItsOrder(t *testing.T) {
	for _, tt := range []struct {
		wanted []string
		want   string
		code   writ.Code
	}{
		{[]string{"virtio-net"}, "failover net_failover virtio_ring virtio virtio_net", ""},
		{[]string{"virtio:d00000001v00001AF4"}, "failover net_failover virtio_ring virtio virtio_net", ""},
		{[]string{"fs-btrfs"}, "crc32c_intel libcrc32c btrfs late", ""},
		{[]string{"virtio", "virtio_net"}, "virtio_ring virtio failover net_failover virtio_net", ""},
		{[]string{"nvme"}, "", ""},
		{[]string{"pci:v00008086d00002922sv0sd0bc01sc06i01"}, "late", ""},
		{[]string{"of:Nx/yTCfoo,bar/1"}, "late", ""},
		{[]string{"e1000"}, "", writ.CodeNotFound},
		{[]string{"hole"}, "", writ.CodeNotFound},
		{[]string{"a"}, "", writ.CodeInternal},
	} {
		all, err := kernel(t).Closure(tt.wanted...)
		if got := names(all); got != tt.want || writ.CodeOf(err) != tt.code {
			t.Errorf("%q needs %q, %v; want %q, %q", tt.wanted, got, err, tt.want, tt.code)
		}
	}
}

func TestListsThatCannotBeReadAreRefused(t *testing.T) {
	for name, text := range map[string]string{"modules.dep": "kernel/a.ko", "modules.alias": "alias one", "modules.softdep": "a: b"} {
		files := fstest.MapFS{}
		for _, list := range []string{"modules.builtin", "modules.dep", "modules.alias", "modules.softdep"} {
			files[list] = &fstest.MapFile{}
		}
		files[name] = &fstest.MapFile{Data: []byte(text)}
		if _, err := Open(files); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s with %q: %v", name, text, err)
		}
	}
	if _, err := Scan(fstest.MapFS{"modules.builtin": {}, "kernel/a.ko": {Data: []byte("no module")}}); err == nil {
		t.Error("an invalid module was read")
	}
}

// Lists writes the same lists for the modules of a real kernel as depmod does.
//
// Promise: Machines from an image: An image contains the modules that modprobe would load.
// How: writ reads each module itself; a test compares with depmod.
// Also: TestAClosureCanBeLoadedInItsOrder.
func TestListsAreThoseOfDepmod(t *testing.T) {
	depmod := &exec.Cmd{Path: testenv.Unpacked(t, testenv.Kmod)}
	dir := testenv.Kernel(t).Modules
	x, err := Scan(os.DirFS(dir))
	if err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	version := filepath.Base(dir)
	if err := os.MkdirAll(filepath.Join(root, "lib", "modules", version), 0o755); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if err := os.Symlink(filepath.Join(dir, e.Name()), filepath.Join(root, "lib", "modules", version, e.Name())); err != nil {
			t.Fatal(err)
		}
	}
	// depmod does not follow links to directories.
	if err := os.Remove(filepath.Join(root, "lib", "modules", version, "kernel")); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(filepath.Join(root, "lib", "modules", version, "kernel"), os.DirFS(filepath.Join(dir, "kernel"))); err != nil {
		t.Fatal(err)
	}
	depmod.Args = []string{"depmod", "-b", root, version}
	if out, err := depmod.CombinedOutput(); err != nil {
		t.Fatalf("depmod: %v\n%s", err, out)
	}
	theirs, err := Open(os.DirFS(filepath.Join(root, "lib", "modules", version)))
	if err != nil {
		t.Fatal(err)
	}
	var all []*Module
	for _, m := range x.modules {
		all = append(all, m)
	}
	if len(all) < 500 {
		t.Errorf("only %d modules were found", len(all))
	}
	files := fstest.MapFS{}
	for name, text := range x.Lists(all) {
		files[name] = &fstest.MapFile{Data: text}
	}
	ours, err := Open(files)
	if err != nil {
		t.Fatal(err)
	}
	for name, their := range theirs.modules {
		our := ours.modules[name]
		if our == nil {
			t.Errorf("%s is missing", name)
			continue
		}
		if our.Path != their.Path || sorted(our.Depends) != sorted(their.Depends) || sorted(our.Aliases) != sorted(their.Aliases) ||
			sorted(our.Before) != sorted(their.Before) || sorted(our.After) != sorted(their.After) {
			t.Errorf("we read\n%+v\nand depmod\n%+v", our, their)
		}
	}
	if len(ours.modules) != len(theirs.modules) {
		t.Errorf("we know %d modules, depmod %d", len(ours.modules), len(theirs.modules))
	}
}

// sorted returns a sorted set as text.
func sorted(words []string) string {
	return strings.Join(slices.Compact(slices.Sorted(slices.Values(words))), " ")
}
