package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"writ/cmd/writ/internal/test/testcluster"
	"writ/internal/test/testenv"
	"writ/internal/test/vmmstub"
)

// TestPublishedPortIsReachedFromHost publishes a port of a container on real drivers.
//
// Promise: Networks and containers: `writ dev` publishes a port of a container at each open IPv4 and IPv6 address,
// names its user to a second claim, lists the addresses, and leaves neither listeners nor rules when the container is
// deleted.
// How: One runner with `--drivers host` and private containerd in its own network namespace.
func TestPublishedPortIsReachedFromHost(t *testing.T) {
	for _, tool := range []string{"nft", "busybox", "ctr"} {
		testenv.Need(t, tool)
	}
	ip := testenv.Need(t, "ip")
	if !testcluster.Alone(t, "") {
		return
	}
	h := &onHost{T: t, binary: testcluster.Binary(t), dir: vmmstub.Passable(t), containers: testenv.Containerd(t, "")}
	h.env = os.Environ()
	image := testenv.Busybox(t)
	if said, err := exec.Command(ip, "-6", "address", "add", "2001:db8::10/128", "dev", "lo").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	data := filepath.Join(h.dir, "n")
	testcluster.Groups(t, filepath.Join(data, "local", "n1"))
	h.start(data, "--image-dir", filepath.Dir(image.Path), "--publish", "127.0.0.1:8080-8081", "--publish", "[2001:db8::10]:8080-8081")
	fetch := fmt.Sprintf("box := import(\"image\").fetch(\"box\", {url: \"file://%s\", sha256: \"%s\", format: \"oci\"})\n", image.Path, image.SHA256)
	h.submit(fetch, "--deployment", "image")
	before := h.traces(data)

	const web = `
container := import("container")
run := import("run")
web := container.create("web", {
	image: "box", command: ["sh", "-c", "mkdir /www; echo hello >/www/name; exec httpd -f -p 80 -h /www"], memory_mib: 64,
	grace_seconds: 1, publish: [{port: 8080, to: 80}]
})
run.output({url: run.url("http", web, 80)})
`
	if said := h.submit(web, "--deployment", "shop"); !strings.Contains(said, "http://[2001:db8::10]:8080\n") {
		t.Errorf("the URL of the port is not in\n%s", said)
	}
	addresses := []string{"127.0.0.1:8080", "[2001:db8::10]:8080"}
	client := &http.Client{Timeout: 5 * time.Second}
	for _, address := range addresses {
		text := ""
		for end := time.Now().Add(10 * time.Second); text == "" && time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
			response, err := client.Get("http://" + address + "/name") // the program may still be starting
			if err != nil {
				continue
			}
			body, _ := io.ReadAll(response.Body)
			_ = response.Body.Close()
			text = string(body)
		}
		if text != "hello\n" {
			t.Errorf("at %s the container answers %q", address, text)
		}
	}

	second := filepath.Join(h.dir, "second.tengo")
	script := "import(\"container\").create(\"other\", {image: \"box\", memory_mib: 64, publish: [{port: 8080, to: 81}]})\n"
	if err := os.WriteFile(second, []byte(script), 0o600); err != nil {
		t.Fatal(err)
	}
	if said, err := h.command("submit", second).CombinedOutput(); err == nil || !strings.Contains(string(said), "PORT_TAKEN") || !strings.Contains(string(said), "container web") {
		t.Errorf("a second container on the port: %v\n%s", err, said)
	}
	for _, args := range [][]string{
		{"resource", "list"}, {"resource", "list", "-o", "csv"}, {"resource", "show", "container/web"},
	} {
		said := h.ok(args...)
		for _, address := range addresses {
			if !strings.Contains(said, address) {
				t.Errorf("writ %s lacks %s:\n%s", strings.Join(args, " "), address, said)
			}
		}
	}
	if said := h.ok("resource", "list", "-o", "json"); !strings.Contains(said, `"address": "2001:db8::10"`) {
		t.Errorf("the JSON lacks an address:\n%s", said)
	}

	h.ok("deployment", "destroy", "shop", "--yes")
	for _, address := range addresses {
		if c, err := net.DialTimeout("tcp", address, 5*time.Second); err == nil {
			_ = c.Close()
			t.Errorf("%s is still open", address)
		}
	}
	if said, err := exec.Command(testenv.Need(t, "nft"), "list", "ruleset").CombinedOutput(); err != nil || strings.Contains(string(said), "8080") {
		t.Errorf("rules are left (%v):\n%s", err, said)
	}
	if after := h.traces(data); after != before {
		t.Errorf("something is left; before:\n%s\nafter:\n%s", before, after)
	}
}
