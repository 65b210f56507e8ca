package main

import (
	"encoding/pem"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"writ/cmd/writ/internal/test/testcluster"
	"writ/internal/test/ociregistry"
	"writ/internal/test/testenv"
	"writ/internal/test/vmmstub"
)

var blocksOfPage = regexp.MustCompile("(?ms)^```(\\w+)(?: ([^\n]*))?\n(.*?)^```$")

// TestServicePageWorks types the commands of docs/manual/service.md on real drivers and compares their output. A
// registry on this machine serves the images of the page, with busybox as the web server.
//
// Promise: Plans, scripts and manuals: The page about a web service from A to Z is correct.
// How: A test types its commands on real drivers and compares the output.
func TestServicePageWorks(t *testing.T) {
	for _, tool := range []string{"nft", "redis-server", "busybox", "ctr", "curl", "openssl"} {
		testenv.Need(t, tool)
	}
	if !testcluster.Alone(t, "") {
		return
	}
	const port = "20081"
	h := &onHost{T: t, binary: testcluster.Binary(t), dir: vmmstub.Passable(t), containers: testenv.Containerd(t, "")}
	registry := ociregistry.Start(t)
	for _, version := range []string{"1.27", "1.28"} {
		image := testenv.BusyboxThatSays(t, map[string]any{
			"Env": []string{"PATH=/bin"},
			"Cmd": []string{"sh", "-c", "mkdir -p /www; echo " + version + " $DB_HOST > /www/index.html; exec httpd -f -p 80 -h /www"},
		})
		registry.Push(t, "library/nginx:"+version, ociregistry.FromArchive(t, image.Path))
	}
	authority, bin := filepath.Join(h.dir, "registry.pem"), filepath.Join(h.dir, "bin")
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: registry.Certificate.Raw})
	for _, err := range []error{
		os.WriteFile(authority, text, 0o644), os.Mkdir(bin, 0o700), os.Symlink(h.binary, filepath.Join(bin, "writ")),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	h.env = append(os.Environ(), "SSL_CERT_FILE="+authority, "PATH="+bin+":"+os.Getenv("PATH"))
	data := filepath.Join(h.dir, "n")
	testcluster.Groups(t, filepath.Join(data, "local", "n1"))
	h.start(data, "--registry", registry.Host)
	before := h.traces(data)
	here := strings.NewReplacer("docker.io/library", registry.Host+"/library", "8080", port, "dev/client.yaml", "$WRIT_CONFIG")
	said := ""
	for _, block := range blocksOfPage.FindAllStringSubmatch(here.Replace(read(t, "../../docs/manual/service.md")), -1) {
		kind, attribute, text := block[1], block[2], block[3]
		file, isFile := strings.CutPrefix(attribute, "file=")
		switch {
		case isFile:
			if err := os.WriteFile(filepath.Join(h.dir, file), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		case kind == "text":
			h.shown(text, said)
		case kind == "sh" && attribute == "":
			said = h.typed(text)
		case attribute != "terminal":
			t.Fatalf("the page has an unknown block %s %s", kind, attribute)
		}
	}
	if after := h.traces(data); after != before {
		t.Errorf("before:\n%s\nafter:\n%s", before, after)
	}
}

// typed types the commands of a block in bash, and returns their output.
func (h *onHost) typed(commands string) string {
	h.Helper()
	lines := typing
	for line := range strings.Lines(commands) {
		lines += mustFail.ReplaceAllString(line, "refused $1")
	}
	bash := exec.Command("bash", "-c", lines)
	bash.Env, bash.Dir = h.env, h.dir
	said, err := bash.CombinedOutput()
	if err != nil {
		h.Fatalf("%s\n%v\n%s", commands, err, said)
	}
	return string(said)
}

// shown checks that the pieces of a text between "…" and line ends occur in the output in order.
func (h *onHost) shown(text, said string) {
	h.Helper()
	rest := said
	for _, piece := range strings.FieldsFunc(text, func(r rune) bool { return r == '…' || r == '\n' }) {
		_, after, found := strings.Cut(rest, strings.TrimSpace(piece))
		if !found {
			h.Fatalf("the output lacks %q:\n%s", piece, said)
		}
		rest = after
	}
}
