package testenv

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func TestMissingToolIsSkippedOrFailed(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	for _, tt := range []struct {
		tool    string
		require bool
		want    verdict
		says    string
	}{
		{"ssh-keygen", false, skip, "ssh-keygen is not on PATH: apt-get install -y openssh-client"},
		{"ssh-keygen", true, fail, "ssh-keygen is not on PATH: apt-get install -y openssh-client"},
		{"mycelium", false, skip, "no package has it"},
		{"mycelium", true, skip, "no package has it"},
		{"abacus", false, fail, "no row"},
	} {
		_, got, text := look(tt.tool, tt.require)
		if got != tt.want || !strings.Contains(text, tt.says) {
			t.Errorf("look(%q, %v) = %v %q, want %v and %q", tt.tool, tt.require, got, text, tt.want, tt.says)
		}
	}
}

func TestMissingToolIsAnErrorIfRequired(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	for require, wantErr := range map[string]bool{"": false, "all": true} {
		t.Setenv(RequireVar, require)
		if there, err := Has("ssh-keygen"); there || (err != nil) != wantErr {
			t.Errorf("with %s=%q: %v, %v", RequireVar, require, there, err)
		}
	}
}

// ended records how a test ends instead of ending it.
type ended struct {
	testing.TB
	skipped string
}

func (e *ended) Skip(args ...any) { e.skipped = fmt.Sprint(args...) }

func TestMissingKernelFeatureIsSkippedAndListed(t *testing.T) {
	list := filepath.Join(t.TempDir(), "skips")
	t.Setenv(SkipsVar, list)
	const says = "this kernel has no Landlock: not supported"
	got := ended{TB: t}
	NeedKernel(&got, "Landlock", nil)
	if got.skipped != "" {
		t.Error("a test is skipped although the kernel meets its needs")
	}
	NeedKernel(&got, "Landlock", errors.New("not supported"))
	listed, err := os.ReadFile(list)
	if got.skipped != says || err != nil || !strings.Contains(string(listed), says) {
		t.Errorf("it was skipped with %q; the list is %q, %v", got.skipped, listed, err)
	}
}

func TestToolIsFoundUnderItsOtherName(t *testing.T) {
	dir := t.TempDir()
	want := filepath.Join(dir, "google-chrome")
	if err := os.WriteFile(want, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir)
	if got := Need(t, "chromium"); got != want {
		t.Errorf("Need = %q, want %q", got, want)
	}
}

func TestSkipIsNoted(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	t.Setenv(RequireVar, "all")
	skips := filepath.Join(t.TempDir(), "skips")
	t.Setenv(SkipsVar, skips)
	t.Run("", func(t *testing.T) { Need(t, "herodb") })
	text, err := os.ReadFile(skips)
	if err != nil || !strings.HasPrefix(string(text), "herodb is not on PATH") {
		t.Errorf("skips = %q, %v", text, err)
	}
}

func TestEveryToolHasItsPackageOrTheReason(t *testing.T) {
	for _, tool := range Tools {
		if (tool.Package == "") == (tool.Missing == "") {
			t.Errorf("%s: package %q, missing %q: exactly one must be set", tool.Name, tool.Package, tool.Missing)
		}
	}
}

// The gate runs with WRIT_TEST_REQUIRE=all, so it must install every package in Tools.
func TestGateInstallsEveryPackage(t *testing.T) {
	script, err := os.ReadFile("../../../.ci/run")
	if err != nil {
		t.Fatal(err)
	}
	line := regexp.MustCompile(`(?m)^packages=\((.*)\)$`).FindSubmatch(script)
	if line == nil {
		t.Fatal(".ci/run has no line packages=(…)")
	}
	installed := strings.Fields(string(line[1]))
	for _, tool := range Tools {
		if tool.Package != "" && !slices.Contains(installed, tool.Package) {
			t.Errorf(".ci/run does not install %s, which %s is in", tool.Package, tool.Name)
		}
	}
	if !slices.Contains(installed, KernelPackage) {
		t.Errorf(".ci/run does not get %s, for guests", KernelPackage)
	}
	unpacked := regexp.MustCompile(`(?m)^unpacked=\((.*)\)$`).FindSubmatch(script)
	if unpacked == nil || !slices.Equal(strings.Fields(string(unpacked[1])), UnpackedPackages) {
		t.Errorf(".ci/run unpacks %q, want %q", unpacked, UnpackedPackages)
	}
}

func TestPackagesOfNodeImagesAreThoseOfTheManual(t *testing.T) {
	for file, where := range map[string]struct {
		line string
		want []string
	}{
		"../../../.ci/nightly":         {`(?m)^downloaded=\((.*)\)$`, slices.Concat(ImageParts, ImagePackages)},
		"../../../docs/manual/boot.md": {`(?m)^apt-get download (containerd .*)$`, ImagePackages},
	} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if line := regexp.MustCompile(where.line).FindSubmatch(text); line == nil || !slices.Equal(strings.Fields(string(line[1])), where.want) {
			t.Errorf("%s has %q, want %q", file, line, where.want)
		}
	}
}

func TestKernelIsFoundWithItsModules(t *testing.T) {
	dir := t.TempDir()
	for _, path := range []string{
		"boot/vmlinuz-6.1.0-2-cloud-amd64", "boot/vmlinuz-6.1.0-9-cloud-amd64", "lib/modules/6.1.0-2-cloud-amd64/modules.builtin",
		"boot/vmlinuz-6.1.0-2-amd64", "lib/modules/6.1.0-2-amd64/modules.builtin", "boot/vmlinuz-6.1.0-2-rt-amd64", "lib/modules/6.1.0-2-rt-amd64/modules.builtin",
	} {
		path = filepath.Join(dir, path)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, nil, 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv(KernelVar, dir)
	want := KernelFiles{filepath.Join(dir, "boot/vmlinuz-6.1.0-2-cloud-amd64"), filepath.Join(dir, "lib/modules/6.1.0-2-cloud-amd64")}
	if got := Kernel(t); got != want {
		t.Errorf("Kernel = %v, want %v", got, want)
	}
	t.Setenv(FullKernelVar, dir)
	want = KernelFiles{filepath.Join(dir, "boot/vmlinuz-6.1.0-2-amd64"), filepath.Join(dir, "lib/modules/6.1.0-2-amd64")}
	if got := FullKernel(t); got != want {
		t.Errorf("FullKernel = %v, want %v", got, want)
	}
}

func TestRedisKeepsItsDataWhenKilled(t *testing.T) {
	r := Redis(t)
	say(t, r, "CONFIG SET appendfsync always", "+OK")
	say(t, r, "SET b 2", "+OK")
	r.Kill()
	if c, err := net.Dial("tcp", r.Addr); err == nil {
		c.Close()
		t.Fatal("it answers after Kill")
	}
	r.Start()
	say(t, r, "EXISTS b", ":1")

	r.Kill()
	if err := os.RemoveAll(filepath.Join(r.Dir, "appendonlydir")); err != nil {
		t.Fatal(err)
	}
	r.Start()
	say(t, r, "EXISTS b", ":0")
}

// say sends one command and expects a reply.
func say(t *testing.T, r *RedisServer, command, want string) {
	t.Helper()
	c, err := net.Dial("tcp", r.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprintf(c, "%s\r\n", command)
	reply, err := bufio.NewReader(c).ReadString('\n')
	if got := strings.TrimSpace(reply); got != want {
		t.Fatalf("%s = %q, %v, want %q", command, got, err, want)
	}
}

func TestKilledPostgresIsRestarted(t *testing.T) {
	p := Postgres(t)
	p.Store()
	for range 2 {
		p.Kill()
		if c, err := net.Dial("tcp", p.Addr); err == nil {
			c.Close()
			t.Fatal("it answers after Kill")
		}
		p.Start()
		p.Store()
	}
}
