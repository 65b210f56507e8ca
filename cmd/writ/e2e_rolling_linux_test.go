package main

import (
	"archive/tar"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"writ/cmd/writ/internal/test/testcluster"
	"writ/internal/test/testenv"
	"writ/internal/test/vmmstub"
)

// rate sends requests at a constant rate to port 8080.
type rate struct {
	stop   chan struct{}
	ended  sync.WaitGroup
	mu     sync.Mutex
	count  map[string]int // answers by text
	failed []string
}

// startRate sends requests until end is called. Half of them are sent on kept connections if keeps is set: each
// replacement then waits for open connections.
func startRate(perSecond int, keeps bool) *rate {
	r := &rate{stop: make(chan struct{}), count: map[string]int{}}
	kept := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 100}}
	fresh := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	r.ended.Go(func() {
		tick := time.NewTicker(time.Second / time.Duration(perSecond))
		defer tick.Stop()
		for i := 0; ; i++ {
			select {
			case <-r.stop:
				return
			case <-tick.C:
			}
			client := fresh
			if keeps && i%2 == 0 {
				client = kept
			}
			r.ended.Go(func() { r.ask(client) })
		}
	})
	return r
}

func (r *rate) ask(client *http.Client) {
	began := time.Now()
	text, err := "", error(nil)
	response, err := client.Get("http://127.0.0.1:8080/")
	if err == nil {
		var body []byte
		body, err = io.ReadAll(response.Body)
		_ = response.Body.Close()
		text = string(body)
		if response.StatusCode != http.StatusOK {
			err = fmt.Errorf("status %d", response.StatusCode)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil {
		r.failed = append(r.failed, fmt.Sprintf("%s after %s: %v", began.Format("05.000"), time.Since(began), err))
		return
	}
	r.count[text]++
}

// sum returns the number of answers so far.
func (r *rate) sum() (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, some := range r.count {
		n += some
	}
	return n + len(r.failed)
}

// end stops the requests and returns the answers and failures.
func (r *rate) end() (count map[string]int, failed []string) {
	close(r.stop)
	r.ended.Wait()
	return r.count, r.failed
}

// TestServiceIsUpdatedWithoutGap updates a service of three replicas on a node with real drivers under load.
//
// Promise: Plans, scripts and manuals: An update of a service of `lib/service@1` loses no request, at 1,000 requests a
// second. A version that does not become healthy ends the run with the end of its log, and the others serve on.
// How: The replicas share a port, and each is handed over after the previous one is healthy; the nightly form sends
// 60,000 requests.
func TestServiceIsUpdatedWithoutGap(t *testing.T) {
	for _, tool := range []string{"nft", "busybox", "ctr"} {
		testenv.Need(t, tool)
	}
	server := filepath.Join(t.TempDir(), "server")
	build := exec.Command("go", "build", "-ldflags=-s -w", "-o", server, "./testdata/webserver")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if said, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	if !testcluster.Alone(t, "") {
		return
	}
	h := &onHost{T: t, binary: testcluster.Binary(t), dir: vmmstub.Passable(t), containers: testenv.Containerd(t, "")}
	h.env = os.Environ()
	program := testenv.LayerEntry{Header: tar.Header{Name: "bin/server", Mode: 0o755}, Text: read(t, server)}
	image := testenv.BusyboxThatSays(t, nil, program)
	data := filepath.Join(h.dir, "n")
	testcluster.Groups(t, filepath.Join(data, "local", "n1"))
	for setting, value := range map[string]string{ // many short connections
		"ipv4/ip_local_port_range": "1024 65000", "netfilter/nf_conntrack_tcp_timeout_time_wait": "5",
	} {
		if err := os.WriteFile("/proc/sys/net/"+setting, []byte(value), 0); err != nil {
			t.Log(err)
		}
	}
	h.start(data, "--image-dir", filepath.Dir(image.Path), "--publish", "127.0.0.1:8080")
	h.submit(fmt.Sprintf("box := import(\"image\").fetch(\"box\", {url: \"file://%s\", sha256: \"%s\", format: \"oci\"})\n",
		image.Path, image.SHA256), "--deployment", "image")
	before := h.traces(data)

	file := filepath.Join(h.dir, "web.tengo")
	submit := func(replicas int, env string, flags ...string) (string, error) {
		t.Helper()
		script := fmt.Sprintf(`service := import("lib/service@1")
run := import("run")
web := service.create("web", {
	replicas: %d,
	container: {
		image: "box", command: ["server"], memory_mib: 64, cpus: 0.5, env: {%s},
		health: {http: "/", start_seconds: 5, retries: 2, interval_seconds: 1, timeout_seconds: 1}
	},
	publish: [{port: 8080, to: 80}],
	update: {healthy_seconds: 1}
})
run.output({replicas: web.names, url: run.url("http", web.replicas[0], 80)})
`, replicas, env)
		if err := os.WriteFile(file, []byte(script), 0o600); err != nil {
			t.Fatal(err)
		}
		said, err := h.command(append([]string{"submit", file, "--deployment", "shop"}, flags...)...).CombinedOutput()
		return string(said), err
	}
	update := func(version int) {
		t.Helper()
		said, err := submit(3, fmt.Sprintf("VERSION: \"v%d\"", version))
		if err != nil || !strings.Contains(said, "http://127.0.0.1:8080\n") {
			t.Fatalf("version %d: %v\n%s", version, err, said)
		}
	}
	update(0)
	perSecond, least := 100, 1_000
	if testenv.IsNightly() {
		perSecond, least = 1_000, 60_000
	}
	requests := startRate(perSecond, testenv.IsNightly())
	version := 1
	for ; version == 1 || requests.sum() < least; version++ {
		update(version)
	}
	said, err := submit(3, `VERSION: "bad", BROKEN: "yes"`)
	if err == nil {
		t.Error("a broken version is accepted")
	}
	for _, want := range []string{"UNHEALTHY", "container web-1 is not healthy", "cannot reach the database"} {
		if !strings.Contains(said, want) {
			t.Errorf("a broken version: missing %q in\n%s", want, said)
		}
	}
	if said := h.ok("resource", "list"); strings.Count(said, "healthy") != 3 || strings.Contains(said, "unhealthy") {
		t.Errorf("after the broken version:\n%s", said)
	}
	if said, err := submit(2, fmt.Sprintf("VERSION: \"v%d\"", version-1), "--prune=container/web-3"); err != nil {
		t.Errorf("fewer replicas: %v\n%s", err, said)
	}
	if said := h.ok("resource", "list"); strings.Contains(said, "web-3") {
		t.Errorf("after the service got fewer replicas:\n%s", said)
	}
	count, failed := requests.end()
	t.Logf("answers: %v", count)
	if len(failed) > 0 || count["bad"] > 0 {
		t.Errorf("%d of %d requests failed, and %d were answered by the broken version: %s",
			len(failed), requests.sum(), count["bad"], strings.Join(failed[:min(len(failed), 10)], "\n"))
	}
	if want := fmt.Sprintf("v%d", version-1); count[want] == 0 || requests.sum() < least {
		t.Errorf("%d requests were answered by %v, want %s as well", requests.sum(), count, want)
	}
	h.ok("deployment", "destroy", "shop", "--yes")
	if after := h.traces(data); after != before {
		t.Errorf("something is left; before:\n%s\nafter:\n%s", before, after)
	}
}
