package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"writ"
	"writ/cmd/writ/internal/test/testcluster"
	"writ/internal/test/testenv"
)

// secretCanary is the value that must not appear anywhere.
const secretCanary = "canary-9c41e07ab2d85f63"

// secretScript uses a secret in every possible place. The (simulated) tools print their input.
const secretScript = `
container := import("container")
herodb := import("herodb")
image := import("image")
machine := import("machine")
run := import("run")

password := run.secret("db-password")
web := image.fetch("web", {url: "https://example.com/web.tar", format: "oci", sha256: "` + "4e07408562bedb8b60ce05c1decfe3ad16b72230967de01f640b7e4729b49fce" + `"})
store := herodb.create("store", {memory_mib: 64, password: password})
box := container.create("box", {image: web, env: {PASSWORD: password, DB: store.address}})
machine.create("vm", {cpus: 1, memory_mib: 64, cloud_init: password, env: {PASSWORD: password}})
sum := container.exec(box, {command: ["sha256sum"], stdin: password})
echo := container.exec(box, {command: ["cat"], stdin: password})
env := container.exec(box, {command: ["printenv", "PASSWORD"], env: {PASSWORD: password}})
run.log("with", password)
run.output({sum: sum.stdout, echo: echo.stdout, env: env.stdout, version: store.secret_version})
`

// TestASecretIsFoundNowhere sends a secret from standard input to drivers on a node, through a real Redis and real
// processes with debug logs, while event streams and pages are read. The drivers receive it; no output ever contains
// it.
//
// Promise: Secrets: The value of a secret appears in no file, log, stream, answer, page, Redis key or span; only the
// driver that needs it receives it.
// How: writ uses names everywhere and age ciphertext in transit; the node decrypts it immediately before use.
// Also: TestASecretEndsAtTheDriver.
func TestASecretIsFoundNowhere(t *testing.T) {
	t.Parallel()
	broker := testenv.Redis(t)
	collector, spans := rawSpans(t)
	s := testcluster.New(t, "WRIT_LOG_LEVEL=debug", "WRIT_TRACES="+collector, "OTEL_BSP_SCHEDULE_DELAY=100")
	s.Add(testcluster.Datacenter{Name: "dc1", Redis: broker.URL, Nodes: 1, Speed: "0"})
	heard := hear(s, "/v1/events", "/live/", "/live/runs")

	said := setSecret(s, "db-password", secretCanary+"\n")
	if !strings.Contains(said, "the secret db-password is set, version 1") || !strings.Contains(said, "23 bytes") {
		t.Errorf("it says:\n%s", said)
	}
	s.Script("secret.tengo", secretScript)
	summary := s.Succeeded(s.Follow(s.Submit("secret.tengo"), 1, func() {}))
	want := map[string]any{
		"sum": writ.DigestOf([]byte(secretCanary)).String() + "  -\n", "echo": "<secret db-password>", "env": "<secret db-password>\n", "version": int64(1),
	}
	for name, v := range want {
		if summary.Output[name] != v {
			t.Errorf("%s is %q, want %q", name, summary.Output[name], v)
		}
	}

	// A new value is a new version, which the next signature uses. It updates the resource of an earlier run.
	setSecret(s, "db-password", "another-"+secretCanary)
	s.Script("again.tengo", `
herodb := import("herodb")
run := import("run")
run.output({version: herodb.create("store", {memory_mib: 64, password: run.secret("db-password")}).secret_version})
`)
	last := s.Submit("again.tengo")
	if summary := s.Succeeded(s.Follow(last, 0, func() {})); summary.Output["version"] != int64(2) {
		t.Errorf("after a new value: %v", summary.Output)
	}
	list := s.Writ("secret", "list", "-o", "json")
	if !strings.Contains(list, `"version": 2`) || !strings.Contains(list, `"set_by": "alice"`) {
		t.Errorf("the list:\n%s", list)
	}

	s.Script("fails.tengo", `
run := import("run")
import("machine").create("fail-vm", {cpus: 1, memory_mib: 64, env: {PASSWORD: run.secret("db-password")}})
`)
	if _, said, code := s.Try("submit", "fails.tengo"); code != writ.ExitFailed {
		t.Errorf("a run of a driver that fails: exit %d\n%s", code, said)
	}
	for _, span := range []string{"writ submit", "deliver", "fails.tengo", "machine.create fail-vm", "carry out", "driver simulated", "INJECTED_FINAL: "} {
		s.Until("the collector has "+span, func(context.Context) bool { return bytes.Contains(spans(), []byte(span)) })
	}

	answers := answersOf(s, last)
	answers["the collector of traces"] = spans()
	for name, p := range s.Procs {
		answers["what "+name+" said"] = []byte(p.Said())
	}
	answers["writ run show"] = []byte(s.Writ("run", "show", string(last), "-o", "json"))
	answers["the list"] = []byte(list)
	for path, text := range heard() {
		answers["the stream "+path] = text
	}
	for what, text := range answers {
		if len(text) == 0 {
			t.Errorf("%s is empty", what)
		}
		silentAbout(t, what, text)
	}
	for _, dir := range []string{s.Dir, broker.Dir} {
		searchFiles(s, dir)
	}

	s.Writ("secret", "remove", "db-password")
	if _, said, code := s.Try("submit", "again.tengo", "--secret", "db-password@2"); code != writ.ExitNotFound || !strings.Contains(said, "SECRET_UNKNOWN") {
		t.Errorf("after it was removed: exit %d\n%s", code, said)
	}
	if _, said, code := s.Try("submit", "again.tengo"); code != writ.ExitNotFound || !strings.Contains(said, "has no secret db-password") {
		t.Errorf("after it was removed: exit %d\n%s", code, said)
	}
}

// rawSpans starts a trace collector. It returns its address, and a function that returns all received bytes.
func rawSpans(t *testing.T) (url string, got func() []byte) {
	var mu sync.Mutex
	var all bytes.Buffer
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		mu.Lock()
		defer mu.Unlock()
		all.Write(body)
	}))
	t.Cleanup(server.Close)
	return server.URL, func() []byte {
		mu.Lock()
		defer mu.Unlock()
		return bytes.Clone(all.Bytes())
	}
}

// setSecret sets a secret from standard input and returns the output of the command.
func setSecret(s *testcluster.Cluster, name, input string) string {
	s.T.Helper()
	cmd := s.Command("secret", "set", name)
	cmd.Stdin = strings.NewReader(input)
	said, err := cmd.CombinedOutput()
	if err != nil {
		s.T.Fatalf("secret set: %v\n%s", err, said)
	}
	return string(said)
}

// hear reads event streams until the returned function is called, which returns the streams.
func hear(s *testcluster.Cluster, paths ...string) func() map[string][]byte {
	s.T.Helper()
	ctx, stop := context.WithCancel(s.T.Context())
	s.T.Cleanup(stop)
	var listening sync.WaitGroup
	var mu sync.Mutex
	heard := map[string][]byte{}
	for _, path := range paths {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL+path, nil)
		if err != nil {
			s.T.Fatal(err)
		}
		answer, err := (&http.Client{Transport: s.Client.LoggedIn(http.DefaultTransport)}).Do(r)
		if err != nil {
			s.T.Fatal(err)
		}
		if answer.StatusCode != http.StatusOK {
			_ = answer.Body.Close()
			continue // this page has no stream
		}
		listening.Go(func() {
			defer answer.Body.Close()
			text, _ := io.ReadAll(answer.Body) // ends with ctx
			mu.Lock()
			defer mu.Unlock()
			heard[path] = text
		})
	}
	return func() map[string][]byte {
		stop()
		listening.Wait()
		return heard
	}
}

// answersOf requests every readable path over HTTP.
func answersOf(s *testcluster.Cluster, run writ.RunID) map[string][]byte {
	s.T.Helper()
	of := "/v1/runs/" + string(run)
	answers := map[string][]byte{}
	for _, path := range []string{
		"/v1/runs", of, of + "/calls", of + "/values", of + "/logs", "/v1/roster", "/v1/datacenters", "/v1/projects", "/v1/nodes", "/v1/queues",
		"/v1/secrets", "/v1/resources", "/metrics", "/", "/runs/" + string(run), "/nodes",
	} {
		answer, err := (&http.Client{Transport: s.Client.LoggedIn(http.DefaultTransport)}).Get(s.URL + path)
		if err != nil {
			s.T.Fatal(err)
		}
		text, err := io.ReadAll(answer.Body)
		_ = answer.Body.Close()
		if err != nil || strings.HasPrefix(path, "/v1") && answer.StatusCode != http.StatusOK {
			s.T.Fatalf("GET %s: %s, %v", path, answer.Status, err)
		}
		answers["GET "+path] = text
	}
	return answers
}

// searchFiles searches for the value in every file below a directory.
func searchFiles(s *testcluster.Cluster, dir string) {
	s.T.Helper()
	files := 0
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return nil // a socket, or a file that was renamed in the meantime
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return nil
		}
		files++
		silentAbout(s.T, path, text)
		return nil
	})
	if err != nil || files == 0 {
		s.T.Errorf("%d files in %s, %v", files, dir, err)
	}
}

// silentAbout fails the test if a text contains the value, in plain or in a common encoding.
func silentAbout(t testing.TB, what string, text []byte) {
	t.Helper()
	for _, form := range []string{secretCanary, hex.EncodeToString([]byte(secretCanary)), base64.StdEncoding.EncodeToString([]byte(secretCanary))[:28]} {
		if bytes.Contains(text, []byte(form)) {
			t.Errorf("%s shows the secret", what)
		}
	}
}
