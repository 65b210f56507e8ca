package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"writ/cmd/writ/internal/test/testcluster"
	"writ/efi/recipe"
	"writ/internal/test/testenv"
)

// manualText returns the first code block in a language below a heading of a manual page, if it begins with begins.
func manualText(t *testing.T, page, heading, language, begins string) string {
	t.Helper()
	_, after, found := strings.Cut(read(t, page), "\n"+heading+"\n")
	_, text, has := strings.Cut(after, "\n```"+language+"\n"+begins)
	text, _, ends := strings.Cut(text, "\n```\n")
	if !found || !has || !ends {
		t.Fatalf("%s has no %s below %q", page, language, heading)
	}
	return begins + text + "\n"
}

// imageServer starts a server for one file in the network of the machine. It returns its URL and the CA certificate.
func imageServer(t *testing.T, file string) (url, ca string) {
	t.Helper()
	authority := testenv.NewAuthority(t)
	certificate, key := authority.Issue(bootHost, time.Now().Add(time.Hour))
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		t.Fatal(err)
	}
	l, err := tls.Listen("tcp", net.JoinHostPort(bootHost, "8443"), &tls.Config{Certificates: []tls.Certificate{pair}})
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.FileServer(http.Dir(filepath.Dir(file)))}
	served := make(chan struct{})
	go func() { defer close(served); _ = server.Serve(l) }()
	t.Cleanup(func() { server.Close(); <-served })
	return "https://" + l.Addr().String() + "/" + filepath.Base(file), authority.CA
}

// An image with containerd and runc from Debian packages, made as in the manual, starts a machine that runs a container
// for a signed script.
//
// Promise: Machines from an image: A machine from the manual's image with Debian's containerd and runc runs
// containers with their own users and networks.
// How: The test builds the image of the manual's recipe; volumes are on btrfs, and containers restart with the
// machine.
// Also: TestPackagesOfNodeImagesAreThoseOfTheManual.
func TestAMachineFromAnImageRunsContainers(t *testing.T) {
	testenv.Nightly(t, "TestProgramsBringTheirLibraries of package efi/image makes an image with a program of Debian")
	testenv.Need(t, "redis-server")
	testenv.Need(t, "qemu-system-x86_64")
	packages, container := testenv.Packages(t), testenv.Busybox(t)
	testenv.Unpacked(t, testenv.FirmwareCode)
	if !testcluster.Alone(t, "") {
		return
	}
	tap := newLAN(t)
	s := testcluster.New(t, "WRIT_REDIS_LISTEN="+bootHost+":6379")
	s.Add(testcluster.Datacenter{Name: "dc1", Redis: bootRedis(t), Listen: bootHost + ":7441"})
	url, ca := imageServer(t, container.Path)

	const page, services = "../../docs/manual/boot.md", "### Services"
	usual, err := recipe.Text(recipe.Cloud)
	if err != nil {
		t.Fatal(err)
	}
	modules, _, _ := strings.Cut(usual, "\ncertificates:")
	s.Script("node.yaml", modules+"\ncertificates: {files: ["+ca+"]}\n"+manualText(t, page, services, "yaml", ""))
	s.Script("containerd.toml", manualText(t, page, services, "toml", ""))
	image := filepath.Join(t.TempDir(), "node.efi")
	t.Log(s.Writ("efi", "build", "--packages", packages, "--recipe", "node.yaml", "--program", staticWrit(t), "--image", image))

	data := filepath.Join(t.TempDir(), "data")
	if err := errors.Join(os.WriteFile(data, nil, 0o600), os.Truncate(data, 2<<30)); err != nil {
		t.Fatal(err)
	}
	// On this disk, the power failed when the file system was complete but not yet labelled.
	if said, err := exec.Command(testenv.Need(t, "mkfs.btrfs"), "-q", "-L", "being made by writ", data).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	starts := func(file string, words ...string) *vm {
		return startVM(t, tap, "-m", "1536", "-drive", "if=none,id=d1,format=raw,file="+file, "-device", "virtio-blk-pci,drive=d1,serial=DATA-1", "-kernel", image, "-append",
			strings.Join(append(words, bootWords+"writ.name=n1 writ.drivers=host writ.image-allow=10.77.0.0/24 writ.disk=DATA-1 writ.supervisor=https://"+bootHost+":7441 writ.redis=rediss://"+bootHost+":6379/0"), " "))
	}
	keepsOthersData(t, starts)

	token := strings.TrimSpace(s.Writ("token", "create", "--dc", "dc1"))
	v := starts(data, "writ.join="+token)
	v.await("btrfs made with the label writ-data")
	v.await("service  containerd is ready")
	v.await("msg=serving")
	serving := time.Since(v.began)
	s.Until("containers are offered", func(context.Context) bool {
		return strings.Contains(s.Writ("node", "show", "n1"), "containerd")
	})
	s.Script("contain.tengo", fmt.Sprintf(`
container := import("container")
run := import("run")
lan := import("network").create("lan", {})
data := import("volume").create("data", {size_gib: 1})
import("volume").snapshot(data, {snapshot: "first"})
box := import("image").fetch("box", {url: %q, sha256: %q, format: "oci"})
web := container.create("web", {image: box, networks: [lan], memory_mib: 64, volumes: [{volume: data, path: "/data"}]})
said := container.exec(web, {command: ["sh", "-c", "echo from $FROM_IMAGE; echo interfaces $(ls /sys/class/net); cat /proc/self/uid_map; grep -o ' /data btrfs' /proc/mounts"]})
run.output({said: said.stdout})
`, url, container.SHA256))
	said := s.Writ("submit", "contain.tengo")
	if !regexp.MustCompile(`from yes interfaces eth0 lo 0 20\d{8} 65536 /data btrfs`).MatchString(strings.Join(strings.Fields(said), " ")) {
		t.Errorf("the container has other content, interfaces, users or volumes:\n%s", said)
	}
	done := time.Since(v.began)
	shown := s.Writ("node", "show", "n1")
	if !strings.Contains(shown, "volume=btrfs") {
		t.Error("its volumes are not on btrfs")
	}
	t.Logf("the run:\n%s\n%s", said, shown)
	v.pressPower()
	t.Logf("serving after %.1f s, the container has answered after %.1f s, off after %.1f s\n%s", serving.Seconds(), done.Seconds(), time.Since(v.began).Seconds(), v.said())

	// After a restart it is the same node, and the container runs without a script.
	v = starts(data)
	v.await("btrfs with the label writ-data")
	v.await("msg=serving")
	s.Script("again.tengo", `import("run").output({said: import("container").exec("web", {command: ["cat", "/proc/1/cmdline"]}).stdout})`+"\n")
	s.Until("the container runs again", func(context.Context) bool {
		said, _, code := s.Try("submit", "again.tengo")
		return code == 0 && strings.Contains(said, "echo ready")
	})
	v.pressPower()
	if said := s.Writ("node", "list", "-o", "name"); len(strings.Fields(said)) != 1 {
		t.Errorf("a node that starts again is another one:\n%s", said)
	}
	t.Logf("started again:\n%s", v.said())
}

// keepsOthersData starts a machine that names a disk with foreign data by its serial number, and cuts the power.
func keepsOthersData(t *testing.T, starts func(file string, words ...string) *vm) {
	t.Helper()
	disk := filepath.Join(t.TempDir(), "others")
	if err := errors.Join(os.WriteFile(disk, nil, 0o600), os.Truncate(disk, 256<<20)); err != nil {
		t.Fatal(err)
	}
	if said, err := exec.Command(testenv.Need(t, "mkfs.ext4"), "-q", "-L", "others", disk).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	before := sha256Of(t, disk)
	v := starts(disk, "writ.join=writ2.none")
	v.await(`/dev/vda, the disk with the serial number DATA-1, is not empty: it has a file system (ext4) with the label "others". It was not changed`)
	v.await("This machine is held at data: it failed twice in the same way.")
	_ = v.cmd.Process.Kill()
	v.ended <- <-v.ended
	if after := sha256Of(t, disk); after != before {
		t.Error("the disk with the data of others has changed")
	}
}
