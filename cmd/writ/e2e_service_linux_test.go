package main

import (
	"encoding/pem"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"writ/cmd/writ/internal/test/testcluster"
	"writ/internal/test/ociregistry"
	"writ/internal/test/testenv"
	"writ/internal/test/vmmstub"
)

// TestServiceIsDeployedFromRegistry runs a service with real drivers from a registry with TLS: a tag becomes a signed
// digest, the node pulls it, a moved tag replaces the container, and nothing is left after the deployment is destroyed.
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
		t.Errorf("it says:\n%s", said)
	}
	if said := h.ok("submit", file, "--deployment", "shop"); !strings.Contains(said, "unchanged") {
		t.Errorf("with the same tag it says:\n%s", said)
	}
	registry.Push(t, "team/web:1", ociregistry.FromArchive(t, testenv.BusyboxThatSays(t, map[string]any{"Env": []string{"PATH=/bin", "VERSION=second"}}).Path))
	if said := h.ok("submit", file, "--deployment", "shop"); !strings.Contains(said, "updated") {
		t.Errorf("with a moved tag it says:\n%s", said)
	}
	if said := version(); !strings.Contains(said, "second") {
		t.Errorf("it says:\n%s", said)
	}
	h.usesPrivateImage(registry)
	h.ok("deployment", "destroy", "shop", "--yes")
	if after := h.traces(data); after != before {
		t.Errorf("before:\n%s\nafter:\n%s", before, after)
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
	if !strings.Contains(text, "created") || !strings.Contains(text, "cpus: 0.25\n") || !strings.Contains(text, "<secret registry>") {
		h.Errorf("it shows:\n%s", text)
	}
	if strings.Contains(text, password) || strings.Contains(text, "not-the-password") {
		h.Errorf("the password is shown:\n%s", text)
	}
}
