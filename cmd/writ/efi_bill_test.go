package main

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"writ/efi/recipe"
	"writ/internal/test/testenv"
)

// A complete build writes image, bill and checksum. It is reproducible.
//
// Promise: Machines from an image: A web server directory delivers a whole image and no token to a machine, also
// during an update.
// How: The image has its digest in its name, and the script with that name is written last; a token is refused.
// Also: TestAnImageWithATokenIsNotForANetwork, TestScripts/efi, TestAMachineStartsFromABootServer.
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
		if text, err := os.ReadFile(said.Name()); err != nil || !bytes.Contains(text, []byte(", its modules and 1 other file\n")) {
			t.Errorf("output of the build: %v\n%s", err, text)
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
