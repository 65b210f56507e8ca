package main

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"crypto/tls"
	"debug/pe"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"writ/cmd/writ/internal/test/testcluster"
	"writ/efi/boot"
	"writ/efi/bootserver"
	stages "writ/efi/progress"
	"writ/internal/test/testenv"
)

// The network card of a machine in a test.
const (
	bootMAC  = "52:54:00:77:00:50"
	bootName = "52-54-00-77-00-50"
)

// initrdOf extracts the initrd of an image, for a machine that starts from a kernel without firmware.
func initrdOf(t *testing.T, image string) (path string) {
	t.Helper()
	file, err := pe.Open(image)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	section := file.Section(".initrd")
	if section == nil {
		t.Fatal("the image has no files")
	}
	data, err := section.Data()
	if err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(t.TempDir(), "initrd")
	if err := os.WriteFile(path, data[:min(len(data), int(section.VirtualSize))], 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// newDisk creates a disk of mib MiB, with a file system unless mkfs is empty.
func newDisk(t *testing.T, mib int64, mkfs ...string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "disk")
	if err := errors.Join(os.WriteFile(path, nil, 0o600), os.Truncate(path, mib<<20)); err != nil {
		t.Fatal(err)
	}
	if len(mkfs) > 0 {
		if said, err := exec.Command(testenv.Need(t, mkfs[0]), append(mkfs[1:], path)...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, said)
		}
	}
	return path
}

// fileThere is part of the file on a disk of a test.
var fileThere = bytes.Repeat([]byte("this is somebody's photograph. "), 40)

// diskWith creates a disk with a file system that contains a file of another computer. If full is set, it has no free
// space.
func diskWith(t *testing.T, label string, full bool) (path string) {
	t.Helper()
	const mib = 16
	dir := t.TempDir()
	size, name := len(fileThere), "photo"
	if full {
		size, name = mib<<20, filepath.Join(filepath.Base(boot.DataAt), "journal.old")
	}
	file := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	for ; ; size -= 32 << 10 {
		if err := os.WriteFile(file, bytes.Repeat(fileThere, size/len(fileThere)), 0o600); err != nil {
			t.Fatal(err)
		}
		path = newDisk(t, mib)
		said, err := exec.Command(testenv.Need(t, "mkfs.ext4"), "-q", "-m", "0", "-O", "^has_journal", "-L", label, "-d", dir, path).CombinedOutput()
		if err == nil {
			return path
		}
		if !full || size < 1<<20 {
			t.Fatalf("%v: %s", err, said)
		}
	}
}

// fatDisk creates the start of a disk with the file system of a USB stick.
func fatDisk(t *testing.T, label string) (path string) {
	t.Helper()
	path = newDisk(t, 1)
	sector := make([]byte, 512)
	copy(sector[71:], fmt.Sprintf("%-11s", label))
	copy(sector[82:], "FAT32   ")
	sector[510], sector[511] = 0x55, 0xaa
	disk, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err == nil {
		_, err = disk.WriteAt(sector, 0)
		err = errors.Join(err, disk.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// fault is a fault of a machine or its environment.
type fault struct {
	name    string
	devices []string    // of the machine
	words   []string    // of its command line
	says    string      // the fault as shown on the console
	next    string      // the remedy as shown on the console
	list    string      // text in `writ boot list`, "" if the machine cannot reach the boot server
	held    bool        // the machine is held
	page    string      // text on the page; "" means why the node does not serve
	disk    string      // path of a disk that must not change
	before  func(v *vm) // called when the first process starts
	mend    func(v *vm) // removes the fault; the machine then continues
}

// A machine shows each fault of itself and its environment within seconds, on its console and in the list of starts,
// with a remedy. It neither restarts nor retries forever: after two equal failures it is held. It formats no disk.
func TestMachineReportsStartFaults(t *testing.T) {
	testenv.Nightly(t, "the tests of package efi/boot have each of these faults without a machine")
	testenv.Need(t, "redis-server")
	testenv.Need(t, "qemu-system-x86_64")
	kernel, stub := testenv.Kernel(t), testenv.Unpacked(t, testenv.EFIStub)
	if !testcluster.Alone(t, "") {
		return
	}
	tap := newLAN(t)
	s := testcluster.New(t, "WRIT_REDIS_LISTEN="+bootHost+":6379")
	s.Add(testcluster.Datacenter{Name: "dc1", Redis: bootRedis(t), Listen: bootHost + ":7441"})
	image := filepath.Join(t.TempDir(), "node.efi")
	s.Writ("efi", "build", "--kernel", kernel.Image, "--modules", kernel.Modules, "--stub", stub, "--program", staticWrit(t), "--image", image)
	initrd := initrdOf(t, image)
	// A proxy between the machine and its supervisor forwards all traffic and has another key.
	stranger := httptest.NewUnstartedServer(&httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(&url.URL{Scheme: "https", Host: bootHost + ":7441"})
			r.Out.Host = r.In.Host
		},
		Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}},
	})
	var err error
	if stranger.Listener, err = net.Listen("tcp", bootHost+":7445"); err != nil {
		t.Fatal(err)
	}
	stranger.StartTLS()
	defer stranger.Close()

	token := func(args ...string) string {
		return "writ.join=" + strings.TrimSpace(s.Writ(append([]string{"token", "create", "--dc", "dc1"}, args...)...))
	}
	expired := token("--valid", "1s")
	const (
		redis     = "writ.redis=rediss://" + bootHost + ":6379/0"
		away      = "192.0.2.1" // packets to it are lost
		labelled  = "writ.data=writ-data"
		apiOf     = "writ.supervisor=https://"
		api       = apiOf + bootHost + ":7441"
		byName    = apiOf + "sup.example.org:7441"
		notJoined = "This machine cannot join its datacenter yet."
	)
	cluster := "writ.cluster=" + strings.Split(expired, ".")[4]
	card := []string{"-netdev", "tap,id=n0,script=no,downscript=no,ifname=" + tap, "-device", "virtio-net-pci,netdev=n0,romfile=,mac=" + bootMAC}
	alone := func(device string) []string {
		return []string{"-netdev", "hubport,id=n0,hubid=1", "-device", device + ",netdev=n0,romfile="}
	}
	disk := func(path string) []string {
		return append(slices.Clone(card), "-drive", "if=none,id=d1,format=raw,file="+path, "-device", "virtio-blk-pci,drive=d1")
	}
	usual := func(words ...string) []string { return append([]string{api, redis}, words...) }
	other, fat, photos, fullDisk := newDisk(t, 128, "mkfs.btrfs", "-q", "-L", "other"), fatDisk(t, "WRIT-DATA"), diskWith(t, "writ-data", false), diskWith(t, "writ-data", true)
	link := func(up string) func(*vm) {
		return func(v *vm) { v.do("set_link", `{"name": "n0", "up": `+up+`}`) }
	}

	// A node joins, so its token is spent and its disk belongs to a node.
	spent, own := token(), newDisk(t, 64, "mkfs.ext4", "-q", "-L", "writ-data")
	faults := []fault{
		{name: "token spent", devices: card, words: usual(spent, "writ.name=n2"), held: true,
			says: "has admitted another node [TOKEN_SPENT]", next: "make another one with `writ token create`", list: "has admitted another node [TOKEN_SPENT]. Next: make another one with"},
		{name: "token expired", devices: card, words: usual(expired), held: true,
			says: "the join token expired on", next: "make another one with `writ token create`", list: "[TOKEN_INVALID]. Next: make another one with"},
		{name: "another cluster", devices: card, words: usual("writ.cluster=" + strings.Repeat("0a", 32)), held: true,
			says: "[WRONG_CLUSTER]", next: "check the address, or ask for a token of the right cluster", list: "the pin names 0a0a"},
		{name: "another certificate", devices: card, words: []string{apiOf + bootHost + ":7445", redis, cluster}, held: true,
			says: "[CERTIFICATE_UNTRUSTED]", next: "", list: "[CERTIFICATE_UNTRUSTED]"},
		{name: "no network card", words: usual(cluster), held: true,
			says: "no network card was found", next: "attach a network card"},
		{name: "no driver", devices: alone("e1000"), words: usual(cluster), held: true,
			says: "the network card 8086:100e (", next: "build the image with the driver (--module)"},
		{name: "no carrier", devices: card, words: usual(cluster), held: true, before: link("false"),
			says: "eth0 (" + bootMAC + ") has no carrier", next: "plug in the cable", mend: link("true")},
		{name: "no DHCP", devices: alone("virtio-net-pci"), words: usual(cluster), held: true,
			says: "asks for an address by DHCP", next: "check that a DHCP server answers"},
		{name: "no nameserver", devices: card, words: []string{byName, redis, cluster},
			says: "this machine has no nameserver", next: "set writ.nameserver", list: "this machine has no nameserver"},
		{name: "nameserver silent", devices: card, words: []string{byName, redis, cluster, "writ.nameserver=" + away},
			says: "the nameservers " + away + " do not answer", next: "check that they run", list: "the nameservers " + away + " do not answer"},
		{name: "supervisor refuses", devices: card, words: []string{apiOf + bootHost + ":7444", redis, cluster}, held: true,
			says: "the supervisor does not listen at " + bootHost + ":7444", next: "start it there, or correct writ.supervisor", list: "the supervisor does not listen at"},
		{name: "supervisor silent", devices: card, words: []string{apiOf + away + ":7441", redis, cluster},
			says: "the supervisor does not answer at " + away + ":7441", next: "check that it runs", list: "the supervisor does not answer at"},
		{name: "Redis refuses", devices: card, words: []string{api, "writ.redis=rediss://" + bootHost + ":6390/0", token(), "writ.name=r1"},
			says: "Redis does not listen at " + bootHost + ":6390", next: "start it there, or correct writ.redis", list: "Redis does not listen at"},
		{name: "Redis silent", devices: card, words: []string{api, "writ.redis=rediss://" + away + ":6379/0", token(), "writ.name=r2"},
			says: "Redis does not answer at " + away + ":6379", next: "check that it runs", list: "Redis does not answer at"},
		{name: "clock never set", devices: append(slices.Clone(card), "-rtc", "base=2019-01-01"), words: usual(cluster), held: true,
			says: "the clock of this machine shows 2019-01-01", next: "set the clock in the firmware's setup", list: "the clock of this machine shows 2019-01-01"},
		{name: "clock wrong", devices: append(slices.Clone(card), "-rtc", "base=2040-01-01"), words: usual(cluster), held: true,
			says: "the clock of this machine shows 2040-01-01", next: "", list: "the clock of this machine shows 2040-01-01"},
		{name: "time server silent", devices: card, words: usual(cluster, "writ.ntp="+away),
			says: "no time server answered", next: "name others with writ.ntp", list: "no time server answered", page: "  clock        not corrected"},
		{name: "no disk", devices: card, words: usual(cluster, labelled), held: true,
			says: "no disk has a file system with the label writ-data; disks and partitions: none", next: "attach the disk", list: "held at data"},
		{name: "disk with another label", devices: disk(other), words: usual(cluster, labelled), held: true, disk: other,
			says: "disks and partitions: vda (btrfs with the label other)", next: "attach the disk", list: "held at data"},
		{name: "disk of a computer", devices: disk(fat), words: usual(cluster, "writ.data=WRIT-DATA"), held: true, disk: fat,
			says: "the label WRIT-DATA belongs to a file system (FAT) on /dev/vda", next: "The disk was not changed", list: "held at data"},
		{name: "disk with files of others", devices: disk(photos), words: usual(cluster, labelled), held: true, disk: photos,
			says: "the disk has files that do not belong to a node: photo", next: "attach the right disk", list: "held at data"},
		{name: "disk full", devices: disk(fullDisk), words: usual(cluster, labelled), held: true,
			says: "the disk /dev/vda is full", next: "delete files on it", list: "is full"},
		{name: "disk of another node", devices: disk(own), words: usual(labelled, "writ.name=n9"), held: true, disk: own,
			says: "the disk belongs to the node n1, and this machine is configured as n9", next: "attach the disk of n9", list: "held at data"},
		{name: "disk of another cluster", devices: disk(own), words: usual(labelled, "writ.cluster="+strings.Repeat("0a", 32)), held: true,
			says: "belongs to a node of another cluster", next: "the disk of its own node", list: "belongs to a node of another cluster"},
	}

	start := func(t *testing.T, f *fault) (*vm, *servedBoot) {
		boots := serveBoot(t, "--listen", bootHost+":8080", "--image", image)
		v := startQEMU(t, append([]string{"-kernel", kernel.Image, "-initrd", initrd, "-append",
			bootWords + "writ.boot=http://" + bootHost + ":8080" + stages.Path + bootName + " " + strings.Join(f.words, " ")}, f.devices...)...)
		return v, boots
	}
	v, boots := start(t, &fault{devices: disk(own), words: usual(spent, labelled, "writ.name=n1")})
	v.await("This machine serves as a node.")
	v.pressPower()
	boots.stop()
	for _, f := range faults {
		t.Run(f.name, func(t *testing.T) {
			before := diskDigest(t, f.disk)
			v, boots := start(t, &f)
			defer boots.stop()
			f.isNamed(t, v, boots)
			if n := strings.Count(v.said(), "] start "); n != 1 {
				t.Errorf("the machine was started %d times", n)
			}
			if n := strings.Count(v.said(), "runner   started as process"); n > 2 {
				t.Errorf("the runner was started %d times", n)
			}
			if f.mend != nil {
				f.mend(v)
				v.await("This machine waits for approval as a node.")
			}
			_ = v.cmd.Process.Kill()
			if diskDigest(t, f.disk) != before {
				t.Error("the disk was changed")
			}
		})
	}
}

// isNamed waits until the fault and its remedy are on the console, in the list and on the page, and logs how long that
// took.
func (f *fault) isNamed(t *testing.T, v *vm, boots *servedBoot) {
	t.Helper()
	v.await("] start ")
	began := time.Now()
	if f.before != nil { // the card has no driver yet
		f.before(v)
	}
	v.await(f.says)
	shown, listed, advice := time.Since(began), "", ""
	if f.list != "" {
		advice = boots.await(f.name, func(r bootserver.Row) bool {
			return strings.Contains(r.Advice, f.list) && r.Failed && (strings.Contains(r.Next, f.next) || r.Step == stages.StageRunner)
		}).Advice
		listed = fmt.Sprintf(", in the list after %.1f s", time.Since(began).Seconds())
	}
	v.await(f.next)
	if f.held {
		v.await("This machine is held")
		v.await("  since ")
	} else {
		v.await(cmp.Or(f.page, "  trouble  "))
	}
	t.Logf("%s: on the console %.1f s after the first process began%s, on the page after %.1f s\n%s\n%s", f.name, shown.Seconds(), listed, time.Since(began).Seconds(), advice, v.said())
}

// diskDigest returns the digest of a file, or the zero value if path is "".
func diskDigest(t *testing.T, path string) (sum [sha256.Size]byte) {
	t.Helper()
	if path == "" {
		return sum
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return sha256.Sum256(text)
}
