package main

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"writ/efi/deb"
	"writ/efi/image"
	"writ/efi/recipe"
	"writ/internal/testenv"
)

// The bill of an image lists each module below its package, even if the package compresses it or has it below usr.
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
	own, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	parts := &image.Recipe{Authorities: []byte("certificates"), Extra: []image.Extra{
		{Name: "/usr/share/x", Data: []byte("x")}, {Name: "/usr/sbin/tool", Program: true, From: "sbin/tool"}, {Name: "/usr/share/tools/t", From: "usr/share/tools/t"},
	}}
	if parts.Program, err = os.ReadFile(own); err != nil {
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

// A complete build writes image, bill and checksum. It is reproducible.
func TestABuildWritesBillAndChecksum(t *testing.T) {
	kernel, stub := testenv.Kernel(t), testenv.Unpacked(t, testenv.EFIStub)
	dir := t.TempDir()
	for _, name := range []string{"a", "b"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	program := filepath.Join(dir, "program")
	source := filepath.Join(dir, "main.go")
	if err := os.WriteFile(source, []byte("package main\n\nfunc main() {}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	build := exec.Command("go", "build", "-o", program, source)
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if said, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	var bills [2][]byte
	for i, name := range []string{"a", "b"} {
		said, err := os.Create(filepath.Join(dir, "said"))
		if err != nil {
			t.Fatal(err)
		}
		defer said.Close()
		target := filepath.Join(dir, name, "node.efi")
		if code := run([]string{"efi", "build", "--kernel", kernel.Image, "--modules", kernel.Modules, "--stub", stub, "--program", program, "--image", target}, said, said, said, os.Environ()); code != 0 {
			text, _ := os.ReadFile(said.Name())
			t.Fatalf("it ends with %d: %s", code, text)
		}
		if bills[i], err = os.ReadFile(target + ".cdx.json"); err != nil {
			t.Fatal(err)
		}
		if text, err := os.ReadFile(said.Name()); err != nil || !bytes.Contains(text, []byte(", its modules and 1 other file together, and compress them\n")) {
			t.Errorf("while it builds it says %v\n%s", err, text)
		}
		made, err := os.ReadFile(target)
		if err != nil {
			t.Fatal(err)
		}
		if sum, err := os.ReadFile(target + ".sha256"); err != nil || string(sum) != fmt.Sprintf("%x  node.efi\n", sha256.Sum256(made)) {
			t.Errorf("the checksum is %q, %v", sum, err)
		}
	}
	t.Run("ipxe", func(t *testing.T) { testIPXE(t, filepath.Join(dir, "a", "node.efi")) })
	if !bytes.Equal(bills[0], bills[1]) {
		t.Error("equal images have other bills")
	}
	for _, want := range []string{`"name": "virtio_net"`, `"name": "systemd-stub"`, `"version": "25`} {
		if !strings.Contains(string(bills[0]), want) {
			t.Errorf("the bill has no %s", want)
		}
	}
}

// testIPXE creates the directory of a boot server: the image, named after its digest, and a script with the complete
// command line.
func testIPXE(t *testing.T, node string) {
	dir, null := filepath.Join(t.TempDir(), "boot"), os.Stdin
	said, err := os.Create(filepath.Join(t.TempDir(), "said"))
	if err != nil {
		t.Fatal(err)
	}
	defer said.Close()
	with := func(more ...string) int {
		return run(append([]string{"efi", "ipxe", "--image", node, "--dir", dir, "--url", "https://boot.example.org/writ/"}, more...), null, said, said, os.Environ())
	}
	for _, wrong := range []string{"writ.join=writ2.x", "writ.drivers=${ip}", "writ.nmae=x"} {
		if with("--setting", wrong) == 0 {
			t.Errorf("%s is a setting", wrong)
		}
	}
	if code := with("--supervisor", "https://10.77.0.3:7441", "--cluster", strings.Repeat("0a", 32)); code != 0 {
		text, _ := os.ReadFile(said.Name())
		t.Fatalf("it ends with %d: %s", code, text)
	}
	made, err := os.ReadFile(node)
	if err != nil {
		t.Fatal(err)
	}
	name := fmt.Sprintf("writ-node-%x.efi", sha256.Sum256(made))
	if text, err := os.ReadFile(filepath.Join(dir, name)); err != nil || !bytes.Equal(text, made) {
		t.Errorf("the image has %d bytes, %v", len(text), err)
	}
	text, err := recipe.Text(recipe.Cloud)
	if err != nil {
		t.Fatal(err)
	}
	cloud, err := recipe.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	script, err := os.ReadFile(filepath.Join(dir, "boot.ipxe"))
	want := "\nkernel https://boot.example.org/writ/" + name + " " + cloud.Cmdline + " writ.supervisor=https://10.77.0.3:7441 writ.cluster=" + strings.Repeat("0a", 32) + " || goto failed\nboot "
	if err != nil || !strings.HasPrefix(string(script), "#!ipxe\n") || !strings.Contains(string(script), want) {
		t.Errorf("the script is\n%s%v", script, err)
	}
}
