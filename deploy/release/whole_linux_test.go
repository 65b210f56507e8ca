package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"writ/internal/test/testenv"
)

// command runs a program and returns its output.
func command(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	c := exec.CommandContext(t.Context(), name, args...)
	c.Dir = dir
	text, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %q: %v\n%s", name, args, err, text)
	}
	return strings.TrimSpace(string(text))
}

// Builds a release twice, in different directories and as different users, and runs each form of it.
func TestAReleaseOfThisSourceRunsInEachForm(t *testing.T) {
	testenv.Nightly(t, "TestEqualProgramsMakeEqualFiles and TestAPackageIsInstalledUpgradedAndRemoved pack a program that is a script")
	testenv.Need(t, "git")
	ctr := testenv.Need(t, "ctr")
	var made []string
	for _, place := range []string{"a", "another/place"} {
		source := filepath.Join(t.TempDir(), place)
		command(t, ".", "git", "clone", "-q", "../..", source)
		out := filepath.Join(t.TempDir(), "dist")
		if err := run(t.Context(), []string{"-source", source, "-version", "v0.0.1-test", "-platforms", "linux/amd64", "-out", out}); err != nil {
			t.Fatal(err)
		}
		made = append(made, out)
	}
	first, err := os.ReadFile(filepath.Join(made[0], sumsName))
	if err != nil {
		t.Fatal(err)
	}
	if second, err := os.ReadFile(filepath.Join(made[1], sumsName)); err != nil || !bytes.Equal(first, second) {
		t.Errorf("the same source makes other files elsewhere: %v\n%s\n%s", err, first, second)
	}
	file := func(end string) string { return filepath.Join(made[0], "writ_0.0.1-test_"+end) }

	unpacked := t.TempDir()
	command(t, unpacked, "tar", "-xzf", file("linux_amd64.tar.gz"))
	writ := filepath.Join(unpacked, "writ_0.0.1-test_linux_amd64", "writ")
	if text := command(t, unpacked, writ, "version", "-o", "name"); text != "v0.0.1-test" {
		t.Errorf("version of the program = %q", text)
	}
	size, err := os.Stat(writ)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Printf("writ for linux/amd64 has %.1f MB\n", float64(size.Size())/1e6)
	rendersNoTemplates(t, writ)
	if text := command(t, unpacked, writ, "demo"); !strings.Contains(text, "succeeded, signed by the datacenter's supervisor and verified") {
		t.Errorf("the demo prints\n%s", text)
	}

	h := newHost(t)
	name := filepath.Base(file("linux_amd64.deb"))
	if err := os.MkdirAll(filepath.Join(h.dir, "upper/var/tmp"), 0o777); err != nil {
		t.Fatal(err)
	}
	command(t, made[0], "cp", name, filepath.Join(h.dir, "upper/var/tmp", name))
	h.do(dpkgInstall + " /var/tmp/" + name)
	if text := h.do("writ version -o name"); text != "v0.0.1-test" {
		t.Errorf("version of the packaged program = %q", text)
	}

	c := testenv.Containerd(t, "")
	const namespace = "writ-release"
	c.Uses(namespace)
	command(t, made[0], ctr, "-a", c.Address, "-n", namespace, "images", "import", "--snapshotter", "native", "--index-name", "writ:0.0.1-test", file("image.tar"))
	if text := command(t, made[0], ctr, "-a", c.Address, "-n", namespace, "run", "--rm", "--snapshotter", "native", "writ:0.0.1-test", "once", "/usr/bin/writ", "version", "-o", "name"); text != "v0.0.1-test" {
		t.Errorf("version of the program in the image = %q", text)
	}
}
