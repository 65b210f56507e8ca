package main

import (
	"bytes"
	"crypto/rand"
	"encoding/pem"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"writ/cmd/writ/internal/test/testcluster"
	"writ/internal/test/ociregistry"
	"writ/internal/test/testenv"
	"writ/internal/test/vmmstub"
)

// roundsBesideDocker is the number of measurements of each kind.
const roundsBesideDocker = 7

// TestLatencyWithDocker prints how long a container takes with writ and with docker on the same machine, in turns: the
// first start with a pull from a registry on loopback, a start of a present image, and an update. It measures commands
// as people type them, so the times of writ include the plan, the signature and the verified result.
func TestLatencyWithDocker(t *testing.T) {
	if !testenv.IsLong() {
		t.Skip("it only prints times (" + testenv.LongVar + "=1 runs it)")
	}
	for _, tool := range []string{"nft", "redis-server", "busybox", "ctr", "dockerd", "docker"} {
		testenv.Need(t, tool)
	}
	if !testcluster.Alone(t, "") {
		return
	}
	registry := ociregistry.Start(t)
	h := &onHost{T: t, binary: testcluster.Binary(t), dir: vmmstub.Passable(t), containers: testenv.Containerd(t, "")}
	authority := filepath.Join(h.dir, "registry.pem")
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: registry.Certificate.Raw})
	if err := os.WriteFile(authority, text, 0o644); err != nil {
		t.Fatal(err)
	}
	h.env = append(os.Environ(), "SSL_CERT_FILE="+authority)
	data := filepath.Join(h.dir, "n")
	testcluster.Groups(t, filepath.Join(data, "local", "n1"))
	h.start(data, "--registry", registry.Host)
	d := startDocker(t, registry.Host)

	times := map[string][2][]time.Duration{}
	measure := func(kind string, side int, do func()) {
		begin := time.Now()
		do()
		all := times[kind]
		all[side] = append(all[side], time.Since(begin))
		times[kind] = all
	}
	for round := range roundsBesideDocker {
		image := fmt.Sprintf("%s/team/web:%d", registry.Host, round)
		registry.Push(t, fmt.Sprintf("team/web:%d", round), ociregistry.FromArchive(t, largeImage(t)))
		name := fmt.Sprintf("c%d", round)
		sides := []func(){
			func() {
				measure("pull and start", 0, func() { h.runContainer(image, name, 1) })
				measure("start", 0, func() { h.runContainer(image, name+"-second", 1) })
				measure("update", 0, func() { h.runContainer(image, name, 2) })
			},
			func() {
				measure("pull and start", 1, func() { d.run(image, name, 1) })
				measure("start", 1, func() { d.run(image, name+"-second", 1) })
				measure("update", 1, func() { d.do("stop", name); d.do("rm", name); d.run(image, name, 2) })
			},
		}
		sides[round%2]()
		sides[1-round%2]()
	}
	var table bytes.Buffer
	w := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "\twrit\tdocker\tratio")
	for _, kind := range []string{"pull and start", "start", "update"} {
		writ, docker := median(times[kind][0]), median(times[kind][1])
		fmt.Fprintf(w, "%s\t%d ms\t%d ms\t%.2f\n", kind, writ.Milliseconds(), docker.Milliseconds(), float64(writ)/float64(docker))
	}
	_ = w.Flush()
	t.Logf("medians of %d:\n%s", roundsBesideDocker, table.String())
}

func median(all []time.Duration) time.Duration {
	slices.Sort(all)
	return all[len(all)/2]
}

// largeImage returns busybox with 32 MiB that cannot be compressed.
func largeImage(t *testing.T) string {
	t.Helper()
	text := make([]byte, 32<<20)
	_, _ = rand.Read(text)
	file := testenv.LayerEntry{Text: string(text)}
	file.Name, file.Mode = "data", 0o644
	return testenv.BusyboxThatSays(t, map[string]any{"Env": []string{"PATH=/bin"}}, file).Path
}

// sleeper is a program that ends at once when it is asked to.
const sleeper = `trap "exit 0" TERM; sleep 1000 & wait`

// runContainer submits a script that runs a container.
func (h *onHost) runContainer(image, name string, revision int) {
	h.Helper()
	file := filepath.Join(h.dir, name+".tengo")
	script := fmt.Sprintf(`import("container").create("%s", {image: "%s", memory_mib: 64, cpus: 0.1, command: ["sh", "-c", %q], env: {REVISION: "%d"}})
`, name, image, sleeper, revision)
	if err := os.WriteFile(file, []byte(script), 0o600); err != nil {
		h.Fatal(err)
	}
	h.ok("submit", file)
}

// docker is a Docker daemon for a test.
type docker struct {
	*testing.T
	client string // path of the program
	socket string
}

// startDocker starts a daemon that trusts a registry on loopback. It ends with the test.
func startDocker(t *testing.T, registry string) docker {
	t.Helper()
	dir := t.TempDir()
	d := docker{t, testenv.Need(t, "docker"), "unix://" + filepath.Join(dir, "docker.sock")}
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = log.Close() })
	daemon := exec.Command(testenv.Need(t, "dockerd"), "--host", d.socket, "--data-root", filepath.Join(dir, "data"), "--exec-root", filepath.Join(dir, "run"),
		"--pidfile", filepath.Join(dir, "pid"), "--bridge", "none", "--iptables=false", "--ip6tables=false", "--insecure-registry", registry)
	daemon.Stdout, daemon.Stderr = log, log
	if err := daemon.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = daemon.Process.Signal(os.Interrupt)
		_ = daemon.Wait()
	})
	for end := time.Now().Add(time.Minute); exec.Command(d.client, "--host", d.socket, "info").Run() != nil; time.Sleep(100 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("dockerd does not start:\n%s", read(t, log.Name()))
		}
	}
	return d
}

func (d docker) do(args ...string) {
	d.Helper()
	if said, err := exec.Command(d.client, append([]string{"--host", d.socket}, args...)...).CombinedOutput(); err != nil {
		d.Fatalf("docker %s: %v\n%s", strings.Join(args, " "), err, said)
	}
}

func (d docker) run(image, name string, revision int) {
	d.Helper()
	d.do("run", "--detach", "--name", name, "--network", "none", "--memory", "64m", "--cpus", "0.1",
		"--env", fmt.Sprintf("REVISION=%d", revision), image, "sh", "-c", sleeper)
}
