package images

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"writ/efi/deb"
	"writ/efi/image"
)

// The bill of an image lists each module below its package, even if the package compresses it or has it below usr.
//
// Promise: Machines from an image: Equal images have equal component lists, with each module below its package.
// How: The list contains no time, and its id derives from its content.
// Also: TestABuildWritesBillAndChecksum, TestEqualComponentsMakeEqualBills, TestModulesOfAGoProgramAreRead.
func TestTheBillOfAnImageNamesWhereEachPartIsFrom(t *testing.T) {
	root, err := os.OpenRoot(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	s := efiSources{root: root, unpacked: []usedPackage{
		{deb.Package{Name: "linux-image-x", Version: "6.1-2", Architecture: "amd64", Files: []string{"boot/vmlinuz-x"}}, strings.Repeat("1", 64)},
		{deb.Package{Name: "linux-modules-x", Version: "6.1-2", Architecture: "amd64", Files: []string{"usr/lib/modules/x/kernel/a.ko.zst", "usr/lib/modules/x/kernel/b.ko.zst"}}, strings.Repeat("2", 64)},
		{deb.Package{Name: "firmware-x", Version: "2023-1", Architecture: "all", Files: []string{"lib/firmware/x/a.fw", "lib/firmware/x/other.fw"}}, strings.Repeat("3", 64)},
		{deb.Package{Name: "kmod", Version: "30-1", Architecture: "amd64"}, strings.Repeat("4", 64)},
		{deb.Package{Name: "ca-certificates", Version: "2025", Architecture: "all", Files: []string{"usr/share/ca-certificates/a.crt"}}, strings.Repeat("5", 64)},
		{deb.Package{Name: "tools", Version: "1", Architecture: "amd64", Files: []string{"sbin/tool", "usr/share/tools/t"}}, strings.Repeat("8", 64)},
		{deb.Package{Name: "liba1", Version: "1", Architecture: "amd64", Files: []string{"lib/x86_64-linux-gnu/liba.so.1", "lib/x86_64-linux-gnu/liba.so.1.2"}}, strings.Repeat("9", 64)},
	}}
	// The binary of this test does not name its modules, so a program is built.
	program, source := filepath.Join(t.TempDir(), "program"), filepath.Join(t.TempDir(), "main.go")
	if err := os.WriteFile(source, []byte("package main\n\nimport _ \"github.com/spf13/cobra\"\n\nfunc main() {}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if said, err := exec.Command("go", "build", "-o", program, source).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	parts := &image.Recipe{Authorities: []byte("certificates"), Extra: []image.Extra{
		{Name: "/usr/share/x", Data: []byte("x")}, {Name: "/usr/sbin/tool", Program: true, From: "sbin/tool"}, {Name: "/usr/share/tools/t", From: "usr/share/tools/t"},
	}}
	if parts.Program, err = os.ReadFile(program); err != nil {
		t.Fatal(err)
	}
	made := &image.Image{
		Data: []byte("image"), Version: "v", Kernel: "x", Modules: []image.Module{{Name: "a", License: "GPL", File: "lib/modules/x/kernel/a.ko"}},
		Libraries: []image.Library{{File: "usr/lib/x86_64-linux-gnu/liba.so.1", From: "lib/x86_64-linux-gnu/liba.so.1.2"}},
		Files:     []image.File{{Name: "lib/firmware/x/a.fw", SHA256: strings.Repeat("6", 64)}, {Name: "lib/modules/x/kernel/a.ko", SHA256: strings.Repeat("7", 64)}},
	}
	text, err := s.bill("node.efi", parts, made)
	if err != nil {
		t.Fatal(err)
	}
	type part struct {
		Name       string
		Components []part
	}
	var bill struct{ Components []part }
	if err := json.Unmarshal(text, &bill); err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, c := range bill.Components {
		for _, p := range c.Components {
			got[c.Name] += p.Name + " "
		}
		got[c.Name] += "."
	}
	for name, want := range map[string]string{"linux-image-x": ".", "linux-modules-x": "a .", "firmware-x": "lib/firmware/x/a.fw .", "ca-certificates": ".", "kmod": "", "/usr/share/x": ".", "tool": "", "tools": "tool /usr/share/tools/t .", "liba1": "liba.so.1 .", image.AuthoritiesAt: "."} {
		if got[name] != want {
			t.Errorf("%s has %q, want %q", name, got[name], want)
		}
	}
	if !strings.Contains(got["writ"], "std ") || !strings.Contains(got["writ"], "github.com/spf13/cobra ") {
		t.Errorf("the program is built of %q", got["writ"])
	}
}
