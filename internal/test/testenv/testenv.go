// Package testenv finds the real tools and servers that the tests of writ need. If a tool is missing, it skips the test
// and names the command that installs the tool. It must not know the subjects of the tests.
package testenv

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Tool is a program that tests may need.
type Tool struct {
	Name    string   // name used by tests
	Other   []string // further names of the same program
	Dirs    string   // pattern of directories to search if it is not on PATH; may be empty
	Package string   // Debian package, "" if none
	Missing string   // why there is no package
}

// Tools lists every program that a test of writ needs. .ci/run installs their packages.
var Tools = []Tool{
	{Name: "redis-server", Package: "redis-server"},
	{Name: "ssh-keygen", Package: "openssh-client"},
	{Name: "postgres", Dirs: postgresDirs, Package: "postgresql"},
	{Name: "pgbouncer", Dirs: "/usr/sbin", Package: "pgbouncer"},
	{Name: "pgpool", Dirs: "/usr/sbin", Package: "pgpool2"},
	{Name: "curl", Package: "curl"},
	{Name: "jq", Package: "jq"},
	{Name: "python3", Package: "python3"},
	{Name: "openssl", Package: "openssl"},
	{Name: "mkfs.ext4", Dirs: "/usr/sbin", Package: "e2fsprogs"},
	{Name: "mkfs.btrfs", Dirs: "/usr/sbin", Package: "btrfs-progs"},
	{Name: "btrfs", Dirs: "/usr/bin", Package: "btrfs-progs"},
	{Name: "qemu-img", Dirs: "/usr/bin", Package: "qemu-utils"},
	{Name: "ip", Dirs: "/usr/sbin", Package: "iproute2"},
	{Name: "sfdisk", Dirs: "/usr/sbin", Package: "fdisk"},
	{Name: "lsattr", Dirs: "/usr/bin", Package: "e2fsprogs"},
	{Name: "mandoc", Package: "mandoc"},
	{Name: "setpriv", Package: "util-linux"},
	{Name: "nice", Package: "coreutils"},
	{Name: "blkid", Dirs: "/usr/sbin", Package: "util-linux"},
	{Name: "systemd-analyze", Package: "systemd"},
	{Name: "git", Package: "git"},
	{Name: "gcc", Package: "gcc"},
	{Name: "dpkg", Package: "dpkg"},
	{Name: "rpm", Package: "rpm"},
	{Name: "nft", Dirs: "/usr/sbin", Package: "nftables"},
	{Name: "ping", Package: "iputils-ping"},
	{Name: "qemu-system-x86_64", Package: "qemu-system-x86"},
	{Name: "fsck.vfat", Dirs: "/usr/sbin", Package: "dosfstools"},
	{Name: "mtype", Package: "mtools"},
	{Name: "chromium", Other: []string{"chromium-browser", "google-chrome"}, Package: "chromium"},
	{Name: "containerd", Package: "containerd"},
	{Name: "ctr", Package: "containerd"},
	{Name: "runc", Dirs: "/usr/sbin", Package: "runc"},
	{Name: "busybox", Package: "busybox-static"},
	{Name: "catatonit", Package: "catatonit"},
	{Name: "docker-registry", Package: "docker-registry"},
	{
		Name:    "schemathesis",
		Missing: "it is a program of Python: `pip install schemathesis==4.32.5`, in an environment of its own",
	},
	{
		Name:    "temporal",
		Missing: "it is built with `go install github.com/temporalio/cli/cmd/temporal@v1.5.1`, in some minutes",
	},
	{
		Name:    "cloud-hypervisor",
		Missing: "it is published as a binary of a release only; without it the stub alone is tried",
	},
	{Name: "mycelium", Missing: "it is published as a binary of a release only; without it the stub alone is tried"},
	{Name: "herodb", Missing: "it is built from source only"},
	{Name: "hero_redis", Missing: "it is built with `cargo install hero_redis --features server`, in some minutes"},
	{Name: "dockerd", Missing: "only `task docker` needs it: `apt-get install docker.io`"},
	{Name: "docker", Missing: "only `task docker` needs it: `apt-get install docker.io`"},
	{Name: "valkey-server", Missing: "Debian has its package from 13 on"},
}

// Environment variables shared by tests and .ci/run.
const (
	// RequireVar set to "all" makes a test fail if a tool with a package is missing.
	RequireVar = "WRIT_TEST_REQUIRE"
	// SkipsVar names a file that gets a line for each test skipped because of a missing tool.
	SkipsVar = "WRIT_TEST_SKIPS"
)

// Need returns the path of a tool in Tools. It skips the test if the tool is missing. With WRIT_TEST_REQUIRE=all the
// test fails instead, unless the tool has no package.
func Need(t testing.TB, name string) string {
	t.Helper()
	path, verdict, text := look(name, os.Getenv(RequireVar) == "all")
	switch verdict {
	case fail:
		t.Fatal(text)
	case skip:
		note(t, text)
		t.Skip(text)
	}
	return path
}

// Path returns the path of a tool in Tools, for code without a testing.TB. The test must have called Need for the tool.
func Path(name string) (string, error) {
	path, v, text := look(name, true)
	if v != found {
		return "", errors.New(text)
	}
	return path, nil
}

// Has reports whether the machine has a tool in Tools. With WRIT_TEST_REQUIRE=all a missing tool is an error, unless it
// has no package. It is for code outside a single test.
func Has(name string) (bool, error) {
	_, verdict, text := look(name, os.Getenv(RequireVar) == "all")
	if verdict == fail {
		return false, errors.New(text)
	}
	return verdict == found, nil
}

// Lack skips the test and records text as a skip. With WRIT_TEST_REQUIRE=all the test fails instead.
func Lack(t testing.TB, text string) {
	t.Helper()
	if os.Getenv(RequireVar) == "all" {
		t.Fatal(text)
	}
	note(t, text)
	t.Skip(text)
}

// NeedKernel skips the test if err is not nil: the kernel lacks a feature. No package provides it, so the gate lists it
// among the skips.
func NeedKernel(t testing.TB, what string, err error) {
	t.Helper()
	if err == nil {
		return
	}
	text := fmt.Sprintf("this kernel has no %s: %v", what, err)
	note(t, text)
	t.Skip(text)
}

type verdict int

const (
	found verdict = iota
	skip
	fail
)

// look finds a tool. If it is missing, look returns the verdict and the reason.
func look(name string, require bool) (path string, v verdict, text string) {
	i := slices.IndexFunc(Tools, func(t Tool) bool { return t.Name == name })
	if i < 0 {
		return "", fail, fmt.Sprintf("%s has no row in the table of internal/test/testenv", name)
	}
	tool := Tools[i]
	for _, n := range append([]string{tool.Name}, tool.Other...) {
		if path, err := exec.LookPath(n); err == nil {
			return path, found, ""
		}
	}
	if there, _ := filepath.Glob(filepath.Join(tool.Dirs, tool.Name)); tool.Dirs != "" && len(there) > 0 {
		return slices.MaxFunc(there, compareVersions), found, ""
	}
	if tool.Package == "" {
		return "", skip, fmt.Sprintf("%s is not on PATH and no package has it: %s", name, tool.Missing)
	}
	text = fmt.Sprintf("%s is not on PATH: apt-get install -y %s", name, tool.Package)
	if require {
		return "", fail, text
	}
	return "", skip, text
}

// note appends the skip to the file that .ci/run counts, if SkipsVar is set.
func note(t testing.TB, text string) {
	path := os.Getenv(SkipsVar)
	if path == "" {
		return
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		t.Fatalf("note a skip: %v", err)
	}
	// One short append, so that processes do not mix lines.
	_, err = f.WriteString(strings.ReplaceAll(text, "\n", " ") + "\n")
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatalf("note a skip: %v", err)
	}
}

// The range of ports that FreePort uses. Systems do not assign these ports to outgoing connections, so a restarted
// server finds its port free.
const (
	firstPort = 16 << 10
	endPort   = 32 << 10
)

// FreePort returns a TCP port of 127.0.0.1 without a listener. Another process may take the port before the caller
// does. Use it only for programs that need a port number, and let your own servers listen on port 0.
func FreePort(t testing.TB) int {
	t.Helper()
	var last error
	for range 100 {
		port := firstPort + rand.IntN(endPort-firstPort)
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err == nil {
			l.Close()
			return port
		}
		last = err
	}
	t.Fatalf("find a free port: %v", last)
	return 0
}
