package main

import (
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"writ/cmd/writ/internal/test/testcluster"
	"writ/internal/test/ociregistry"
	"writ/internal/test/testenv"
	"writ/internal/test/vmmstub"
)

// TestServiceIsDeployedFromRegistry runs a service with real drivers from a registry with TLS: a tag becomes a signed
// digest, the node pulls it, a moved tag replaces the container without a failed request, and destroying the deployment
// removes everything.
//
// Promise: Volumes and images: A tag is resolved once, when a person signs; nodes run the signed digest.
// How: the client writes the digests into the signed header; evaluators and nodes use only those.
// Also: TestReferencesGetTheirSignedDigests, TestOnlySignedImagesAreUsed.
func TestServiceIsDeployedFromRegistry(t *testing.T) {
	for _, tool := range []string{"nft", "redis-server", "busybox", "ctr"} {
		testenv.Need(t, tool)
	}
	if !testcluster.Alone(t, "") {
		return
	}
	h := &onHost{T: t, binary: testcluster.Binary(t), dir: vmmstub.Passable(t), containers: testenv.Containerd(t, "")}
	registry := ociregistry.Start(t)
	authority := filepath.Join(h.dir, "registry.pem")
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: registry.Certificate.Raw})
	if err := os.WriteFile(authority, text, 0o644); err != nil {
		t.Fatal(err)
	}
	h.env = append(os.Environ(), "SSL_CERT_FILE="+authority)
	data := filepath.Join(h.dir, "n")
	testcluster.Groups(t, filepath.Join(data, "local", "n1"))
	h.start(data, "--registry", registry.Host)
	before := h.traces(data)

	first := registry.Push(t, "team/web:1", ociregistry.FromArchive(t, testenv.BusyboxThatSays(t, map[string]any{"Env": []string{"PATH=/bin", "VERSION=first"}}).Path))
	file := filepath.Join(h.dir, "web.tengo")
	script := `container := import("container")
container.create("web", {image: "` + registry.Host + `/team/web:1", memory_mib: 64})
`
	if err := os.WriteFile(file, []byte(script), 0o600); err != nil {
		t.Fatal(err)
	}
	look := filepath.Join(h.dir, "look.tengo")
	asks := `import("run").output({v: import("container").exec("web", {command: ["sh", "-c", "echo $VERSION"]}).stdout})`
	if err := os.WriteFile(look, []byte(asks), 0o600); err != nil {
		t.Fatal(err)
	}
	version := func() string { return h.ok("submit", look, "--deployment", "shop") }
	if said := h.ok("submit", file, "--deployment", "shop"); !strings.Contains(said, "created") {
		t.Errorf("it says:\n%s", said)
	}
	if said := h.traces(data); !strings.Contains(said, "@"+first+"\n") {
		t.Errorf("containerd does not have the image %s:\n%s", first, said)
	}
	if said := version(); !strings.Contains(said, "first") {
		t.Errorf("output:\n%s", said)
	}
	if said := h.ok("submit", file, "--deployment", "shop"); !strings.Contains(said, "unchanged") {
		t.Errorf("output with the same tag:\n%s", said)
	}
	registry.Push(t, "team/web:1", ociregistry.FromArchive(t, testenv.BusyboxThatSays(t, map[string]any{"Env": []string{"PATH=/bin", "VERSION=second"}}).Path))
	if said := h.ok("submit", file, "--deployment", "shop"); !strings.Contains(said, "updated") {
		t.Errorf("output with a moved tag:\n%s", said)
	}
	if said := version(); !strings.Contains(said, "second") {
		t.Errorf("it says:\n%s", said)
	}
	h.servesWithoutGap(registry)
	h.usesPrivateImage(registry)
	h.ok("deployment", "destroy", "shop", "--yes")
	if after := h.traces(data); after != before {
		t.Errorf("before:\n%s\nafter:\n%s", before, after)
	}
}

// servesWithoutGap deploys three revisions of a web server while it requests the published port. The last revision does
// not work.
func (h *onHost) servesWithoutGap(registry *ociregistry.Server) {
	h.Helper()
	const port = 20080 // writ dev opens 20000 to 20999
	file := filepath.Join(h.dir, "site.tengo")
	script := fmt.Sprintf(`import("container").create("site", {
	image: "%s/team/site:1", memory_mib: 64, cpus: 0.5,
	command: ["sh", "-c", "mkdir -p /www; echo $VERSION > /www/$PAGE; exec httpd -f -p 80 -h /www"],
	publish: [{port: %d, to: 80}],
	health: {http: "/version", port: 80, interval_seconds: 1, timeout_seconds: 1, start_seconds: 2, retries: 1}
})
`, registry.Host, port)
	if err := os.WriteFile(file, []byte(script), 0o600); err != nil {
		h.Fatal(err)
	}
	push := func(version, page string) {
		h.Helper()
		image := testenv.BusyboxThatSays(h, map[string]any{"Env": []string{"PATH=/bin", "VERSION=" + version, "PAGE=" + page}})
		registry.Push(h.T, "team/site:1", ociregistry.FromArchive(h, image.Path))
	}
	push("one", "version")
	if said := h.ok("submit", file, "--deployment", "shop"); !strings.Contains(said, "container.create site") || !strings.Contains(said, "created") {
		h.Errorf("output for the first revision:\n%s", said)
	}
	stop := requests(fmt.Sprintf("http://127.0.0.1:%d/version", port))
	push("two", "version")
	if said := h.ok("submit", file, "--deployment", "shop"); !strings.Contains(said, "updated") {
		h.Errorf("output for the second revision:\n%s", said)
	}
	push("three", "elsewhere")
	said, err := h.command("submit", file, "--deployment", "shop").CombinedOutput()
	if err == nil || !strings.Contains(string(said), "UNHEALTHY") || !strings.Contains(string(said), "status 404") {
		h.Errorf("output for the third revision: %v\n%s", err, said)
	}
	time.Sleep(time.Second)
	answers := stop()
	h.Logf("answers: %v", answers)
	for text, n := range answers {
		if text != "one" && text != "two" {
			h.Errorf("%d requests: %s", n, text)
		}
	}
	if answers["two"] == 0 {
		h.Error("the second revision did not answer")
	}
}

// requests sends requests to an address with four clients until stop is called, which returns the number of answers by
// text. Each request uses a new connection.
func requests(address string) (stop func() map[string]int) {
	client := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	get := func() string {
		answer, err := client.Get(address)
		if err != nil {
			return "failed: " + err.Error()
		}
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		if err != nil || answer.StatusCode != http.StatusOK {
			return fmt.Sprintf("failed: %s, %v", answer.Status, err)
		}
		return strings.TrimSpace(string(text))
	}
	var clients sync.WaitGroup
	var mu sync.Mutex
	ended, count := make(chan struct{}), map[string]int{}
	for range 4 {
		clients.Go(func() {
			for {
				select {
				case <-ended:
					return
				default:
				}
				text := get()
				mu.Lock()
				count[text]++
				mu.Unlock()
			}
		})
	}
	return func() map[string]int {
		close(ended)
		clients.Wait()
		return count
	}
}

// usesPrivateImage deploys an image that needs an account, whose password is a secret. The client that signs has the
// account, too.
func (h *onHost) usesPrivateImage(registry *ociregistry.Server) {
	h.Helper()
	const password = "pa55word-of-the-registry"
	registry.Push(h.T, "team/web:1", ociregistry.FromArchive(h, testenv.BusyboxThatSays(h, map[string]any{"Env": []string{"PATH=/bin", "VERSION=private"}}).Path))
	registry.Before(func(w http.ResponseWriter, r *http.Request) bool {
		if user, got, _ := r.BasicAuth(); user == "ci" && got == password {
			return false
		}
		w.Header().Set("WWW-Authenticate", `Basic realm="x"`)
		w.WriteHeader(http.StatusUnauthorized)
		return true
	})
	defer registry.Before(nil)
	registry.LogIn(h, h.dir, "ci", password)
	h.env = append(h.env, "DOCKER_CONFIG="+h.dir)
	secret := func(value string) {
		h.Helper()
		set := h.command("secret", "set", "registry")
		set.Stdin = strings.NewReader(value)
		if said, err := set.CombinedOutput(); err != nil {
			h.Fatalf("set the secret: %v\n%s", err, said)
		}
	}
	file := filepath.Join(h.dir, "private.tengo")
	script := `import("container").create("private", {
	image: "` + registry.Host + `/team/web:1", memory_mib: 64, cpus: 0.25,
	env: {OWN: "yes"}, login: {user: "ci", password: import("run").secret("registry")}
})
`
	if err := os.WriteFile(file, []byte(script), 0o600); err != nil {
		h.Fatal(err)
	}
	secret("not-the-password")
	said, err := h.command("submit", file, "--deployment", "shop").CombinedOutput()
	if err == nil || !strings.Contains(string(said), "REGISTRY_LOGIN") {
		h.Errorf("with the wrong password: %v\n%s", err, said)
	}
	secret(password)
	text := h.ok("plan", file, "--deployment", "shop") + h.ok("submit", file, "--deployment", "shop") + h.ok("resource", "list", "-o", "json") +
		read(h.T, filepath.Join(h.dir, "dev.log"))
	if !strings.Contains(text, "created") || !strings.Contains(text, "cpus: 0.25\n") || !strings.Contains(text, "<secret registry@2>") {
		h.Errorf("it shows:\n%s", text)
	}
	if strings.Contains(text, password) || strings.Contains(text, "not-the-password") {
		h.Errorf("the password is shown:\n%s", text)
	}
}
