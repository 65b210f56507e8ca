package nested

import (
	"crypto/sha256"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Files of the emulated machine.
const (
	kernelFile    = "/images/kernel"
	initramfsFile = "/images/initramfs"
	dataDir       = "/var/lib/writ/dev"
	machineDirs   = dataDir + "/local/n1/host/machine/machines/*"
)

const (
	lookEvery = 200 * time.Millisecond
	logEvery  = time.Minute // while the console lacks the expected text
)

// node is a cluster of one node on the emulated machine. Its waits have no limits, because the machine as a whole has
// one.
type node struct {
	*testing.T
	env  []string
	last time.Time // end of the previous step
}

// startNode prepares the machine like a distribution's init system and runs writ until the test ends.
func startNode(t *testing.T) *node {
	t.Helper()
	n := &node{T: t, env: append(os.Environ(), "PATH=/bin", "HOME=/root"), last: time.Now()}
	for _, dir := range []string{"/root", "/run", filepath.Dir(dataDir)} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, device := range []string{"/dev/kvm", "/dev/net/tun"} {
		if err := os.Chmod(device, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	n.run("busybox", "ip", "link", "set", "lo", "up")
	n.until("the disk is mounted", func() bool { return unix.Mount("/dev/vda", filepath.Dir(dataDir), "btrfs", 0, "") == nil })
	for !n.startWrit() {
		n.done("writ ended before it was ready and is started again")
	}
	n.done("the cluster is ready")
	return n
}

// startWrit starts a cluster of one node and reports whether it is ready. The cluster exits if the host is so busy that
// the emulated machine misses a timeout of writ.
func (n *node) startWrit() bool {
	n.Helper()
	words, err := os.Create("/tmp/dev")
	if err != nil {
		n.Fatal(err)
	}
	said := io.MultiWriter(words, os.Stdout)
	dev := n.command("writ", "dev", "--data", dataDir, "--drivers", "host", "--cpus", "4", "--listen", "127.0.0.1:0", "--image-dir", filepath.Dir(kernelFile))
	dev.Stdout, dev.Stderr = said, said
	if err := dev.Start(); err != nil {
		n.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- dev.Wait() }()
	for {
		if found := regexp.MustCompile(`export WRIT_CONFIG=(\S+)`).FindStringSubmatch(n.read(words.Name())); found != nil {
			n.env = append(n.env, "WRIT_CONFIG="+found[1])
			n.Cleanup(func() {
				_ = dev.Process.Signal(os.Interrupt)
				<-ended
			})
			return true
		}
		select {
		case <-ended:
			return false
		case <-time.After(lookEvery):
		}
	}
}

// command returns a command that runs a program of the node.
func (n *node) command(name string, args ...string) *exec.Cmd {
	c := exec.Command("/bin/"+name, args...)
	c.Env = n.env
	return c
}

// run runs a command that must succeed and returns its output.
func (n *node) run(name string, args ...string) string {
	n.Helper()
	said, err := n.command(name, args...).CombinedOutput()
	if err != nil {
		n.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, said)
	}
	return string(said)
}

// submit runs a script to completion and returns its output. The script can use the modules of machines. It logs the
// duration.
func (n *node) submit(what, script string) string {
	n.Helper()
	const file = "/tmp/script.tengo"
	for _, module := range []string{"network", "image", "volume", "machine", "run"} {
		if strings.Contains(script, module+".") {
			script = fmt.Sprintf("%s := import(%q)\n", module, module) + script
		}
	}
	if err := os.WriteFile(file, []byte(script), 0o600); err != nil {
		n.Fatal(err)
	}
	said := n.run("writ", "submit", file, "--destructive")
	n.done(what)
	return said
}

// until waits for a condition and logs the duration.
func (n *node) until(what string, ok func() bool) {
	n.Helper()
	for !ok() {
		time.Sleep(lookEvery)
	}
	n.done(what)
}

// done logs a step with its duration.
func (n *node) done(what string) {
	n.Helper()
	n.Logf("%6.1f s  %s", time.Since(n.last).Seconds(), what)
	n.last = time.Now()
}

// console returns the output of the only machine since its last start.
func (n *node) console() string {
	n.Helper()
	files, _ := filepath.Glob(machineDirs + "/console.log")
	if len(files) != 1 {
		return ""
	}
	return n.read(files[0])
}

// says waits until the console of the machine contains a text. It logs the console periodically, in case the guest
// hangs.
func (n *node) says(text string) {
	n.Helper()
	logged := time.Now()
	n.until(fmt.Sprintf("%q on the guest's console", text), func() bool {
		said := n.console()
		if time.Since(logged) > logEvery {
			logged = time.Now()
			n.Logf("the guest's console lacks %q:\n%s", text, said)
		}
		return strings.Contains(said, text)
	})
}

// answers waits until the machine responds at its address.
func (n *node) answers(address string) {
	n.Helper()
	n.until("the guest answers at "+address, func() bool {
		return n.command("busybox", "ping", "-6", "-c", "1", "-W", "2", address).Run() == nil
	})
}

func (n *node) read(path string) string {
	n.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		n.Fatal(err)
	}
	return string(text)
}

func (n *node) digest(path string) string {
	n.Helper()
	return fmt.Sprintf("%x", sha256.Sum256([]byte(n.read(path))))
}

// traces lists the objects on the host that belong to machines, by kind.
func (n *node) traces() map[string][]string {
	n.Helper()
	all := map[string][]string{}
	for kind, pattern := range map[string]string{"directory": machineDirs, "tap": "/sys/class/net/*/tun_flags"} {
		all[kind], _ = filepath.Glob(pattern)
	}
	programs, _ := filepath.Glob("/proc/[0-9]*/exe")
	for _, program := range programs {
		if path, err := os.Readlink(program); err == nil && strings.HasPrefix(path, "/bin/cloud-hypervisor") {
			all["process"] = append(all["process"], program)
		}
	}
	err := filepath.WalkDir("/sys/fs/cgroup", func(path string, _ fs.DirEntry, err error) error {
		if strings.HasPrefix(filepath.Base(filepath.Dir(path)), "writ-machine-") && strings.HasPrefix(filepath.Base(path), "m") && isDir(path) {
			all["cgroup"] = append(all["cgroup"], path)
		}
		return err
	})
	if err != nil {
		n.Fatal(err)
	}
	return all
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}
