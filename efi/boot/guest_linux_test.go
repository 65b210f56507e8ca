package boot_test

import (
	"bytes"
	"context"
	"debug/pe"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"writ/efi/boot"
	"writ/efi/boot/internal/test/ntpstub"
	"writ/efi/bootserver"
	"writ/efi/image"
	"writ/efi/progress"
	texts "writ/efi/recipe"
	"writ/internal/logring"
	"writ/internal/test/testenv"
)

// The settings of the guest. TestInside recognises the guest by the token.
const (
	guestToken = "writ2.not-to-be-shown"
	guestWords = "writ.join=" + guestToken + " writ.name=guest-1 writ.nameserver=192.0.2.53 writ.data=of-guest-1 writ.disk=S-GUEST-1 writ.interface=52:54:00:12:34:58 writ.vlan=7"
	insideVar  = "-test.run=^TestInside$"
)

// TestMain makes this test binary act as the program of an image: the first process, the kernel's modprobe, and the
// runner, which runs TestInside.
func TestMain(m *testing.M) {
	switch {
	case boot.IsInit(os.Getpid(), os.Args):
		(&boot.Machine{
			Version: "of a test",
			Joined:  func() bool { return false },
			Redact:  func(line string) string { return strings.ReplaceAll(line, "canary", "(redacted)") },
			Runner:  func(boot.Config) []string { return []string{insideVar, "-test.v"} },
			Means: func(line string) (progress.Report, bool) {
				return progress.Report{Stage: progress.StageJoined}, strings.HasPrefix(line, "the runner says")
			},
		}).Main()
	case boot.IsModprobe(os.Args):
		os.Exit(boot.Modprobe(os.Args))
	case len(os.Args) == 2 && os.Args[1] == "orphan":
		leaveOrphan()
	case len(os.Args) == 2 && os.Args[1] == "service":
		serveSocket()
	case len(os.Args) == 2 && os.Args[1] == "faulty":
		fmt.Println("first\nno such canary")
		os.Exit(3)
	case len(os.Args) == 2 && os.Args[1] == "contained":
		changeRoot()
	case len(os.Args) == 2 && os.Args[1] == "breaker":
		breakMachine()
	case len(os.Args) == 2 && os.Args[1] == "own-proc":
		mountProc()
	case len(os.Args) == 2 && os.Args[1] == "short":
		time.Sleep(50 * time.Millisecond)
		os.Exit(0)
	}
	code := m.Run()
	if isInside() { // the result was printed before
		_ = unix.Kill(1, unix.SIGTERM)
	}
	os.Exit(code)
}

// isInside reports whether this process is the runner of a guest.
func isInside() bool { return os.Getppid() == 1 && os.Args[0] == boot.Program }

// leaveOrphan starts a process, prints its pid and exits before it.
func leaveOrphan() {
	child := exec.Command(boot.Program, "short")
	if err := child.Start(); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println(child.Process.Pid)
	os.Exit(0)
}

// changeRoot changes the root of this process, as runc does for a container.
func changeRoot() {
	const root = "/tmp/merged"
	runtime.LockOSThread()
	err := unix.Unshare(unix.CLONE_NEWNS)
	for _, step := range []func() error{
		func() error { return unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "") },
		func() error { return unix.Chdir(root) },
		func() error { return unix.PivotRoot(".", ".") },
		func() error { return unix.Unmount(".", unix.MNT_DETACH) },
	} {
		if err == nil {
			err = step()
		}
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	left, _ := os.ReadDir("/")
	fmt.Println(len(left))
	os.Exit(0)
}

// mountProc mounts /proc as the first process of a container with a user namespace.
func mountProc() {
	if err := unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	os.Exit(0)
}

// serviceSocket is the socket of a service in the guest.
const serviceSocket = "/run/test/service.sock"

// serveSocket is a service that needs a moment to become ready.
func serveSocket() {
	time.Sleep(300 * time.Millisecond)
	if err := os.Mkdir(filepath.Dir(serviceSocket), 0o755); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	l, err := net.Listen("unix", serviceSocket)
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	for {
		if conn, err := l.Accept(); err == nil {
			conn.Close()
		}
	}
}

// TestInside checks the environment of a runner on a machine that started from an image. It runs only there.
func TestInside(t *testing.T) {
	if !isInside() {
		t.Skip("TestTheFirstProcessPreparesAMachine runs it on a machine of its own")
	}
	fmt.Println("the runner says canary")
	awaitAddress(t, "eth1", "fec0::5054:ff:fe12:3457/64") // from a router advertisement
	awaitAddress(t, "eth2.7", vlanCard)
	read := func(file string) string {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Error(err)
		}
		return string(text)
	}
	for file, want := range map[string]string{
		"/proc/cmdline":                   "writ.join=(hidden) writ.name=guest-1",
		"/etc/resolv.conf":                "nameserver 192.0.2.53\nnameserver 10.0.2.3\n",
		"/proc/sys/kernel/hostname":       "guest-1\n",
		"/proc/sys/kernel/dmesg_restrict": "1\n",
		"/proc/net/route":                 "0202000A", // the gateway
		"/proc/net/vlan/config":           "eth2.7         | 7  | eth2\n",
		"/proc/mounts":                    "/dev/vda /var/lib/writ btrfs rw,",
		"/proc/self/mountinfo":            " /sys/fs/cgroup ",
		boot.TokenAt:                      guestToken + "\n",
		"/proc/modules":                   "virtio_net ",
		"/etc/os-release":                 "\nIMAGE_ID=writ-node\nIMAGE_VERSION=",
	} {
		if text := read(file); !strings.Contains(text, want) {
			t.Errorf("%s has no %q:\n%s", file, want, text)
		}
	}
	if err := os.WriteFile("/dev/kmsg", []byte("<4>the kernel warns of a canary\n"), 0); err != nil {
		t.Error(err)
	}
	for source, want := range map[string]string{
		"boot": "info start: writ of a test on Linux 6.", "faulty": "info no such (redacted)", "kernel": "warn the kernel warns of a (redacted)",
	} {
		awaitLine(t, source, want)
	}
	if text := read("/proc/cmdline"); strings.Contains(text, guestToken) {
		t.Error("/proc/cmdline shows the token")
	}
	if info, err := os.Stat(boot.TokenAt); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the token is for %v, %v", info.Mode(), err)
	}
	for _, dir := range []string{"lower", "upper", "work", "merged"} {
		if err := os.MkdirAll(filepath.Join("/tmp", dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if strings.Contains(read("/proc/modules"), "overlay ") {
		t.Error("overlay is loaded before it is used")
	}
	if err := unix.Mount("overlay", "/tmp/merged", "overlay", 0, "lowerdir=/tmp/lower,upperdir=/tmp/upper,workdir=/tmp/work"); err != nil {
		t.Errorf("the kernel does not get the requested module: %v", err)
	}
	if out, err := exec.Command(boot.Program, "contained").CombinedOutput(); err != nil || string(out) != "0\n" {
		t.Errorf("a process cannot have another root directory, or sees more than that: %v, %s", err, out)
	}
	users := exec.Command(boot.Program, "own-proc")
	ids := []syscall.SysProcIDMap{{HostID: 100000, Size: 65536}}
	users.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNS, UidMappings: ids, GidMappings: ids, Credential: &syscall.Credential{NoSetGroups: true}}
	if out, err := users.CombinedOutput(); err != nil {
		t.Errorf("a container with users of its own gets no /proc: %v, %s", err, out)
	}
	if info, err := os.Stat("/run/whole"); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("/proc with the token is open to others: %v, %v", info, err)
	}
	if conn, err := net.Dial("unix", serviceSocket); err != nil {
		t.Errorf("a service is not ready before the runner: %v", err)
	} else {
		conn.Close()
	}
	out, err := exec.Command(boot.Program, "orphan").Output()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	orphan := filepath.Join("/proc", strings.TrimSpace(string(out)))
	for late := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		if _, err := os.Stat(orphan); err != nil {
			break
		}
		if time.Now().After(late) {
			t.Fatal("a process without a parent stays when it has ended")
		}
	}
}

// awaitLine waits until the logs contain a line of a source.
func awaitLine(t *testing.T, source, want string) {
	t.Helper()
	for late := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		all, err := logring.Read(logring.File(boot.LogsAt, source))
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range all {
			// The clock was set meanwhile.
			if strings.HasPrefix(e.Level+" "+e.Text, want) && e.Boot == logring.Boot() && time.Since(e.Time) < 5*time.Hour {
				return
			}
		}
		if time.Now().After(late) {
			t.Errorf("%s has no %q: %+v", source, want, all)
			return
		}
	}
}

// awaitAddress waits until a card has an address that passed duplicate detection.
func awaitAddress(t *testing.T, name, want string) {
	t.Helper()
	var has []net.Addr
	for late := time.Now().Add(20 * time.Second); time.Now().Before(late); time.Sleep(10 * time.Millisecond) {
		if card, err := net.InterfaceByName(name); err == nil {
			has, _ = card.Addrs()
		}
		if slices.ContainsFunc(has, func(a net.Addr) bool { return a.String() == want && usable(want) }) {
			return
		}
	}
	t.Errorf("%s has %v, and not %s", name, has, want)
}

// usable reports whether a program can bind to an address.
func usable(prefix string) bool {
	l, err := net.ListenPacket("udp", netip.AddrPortFrom(netip.MustParsePrefix(prefix).Addr(), 0).String())
	if err == nil {
		l.Close()
	}
	return err == nil
}

// section returns a section of an image.
func section(t *testing.T, made *image.Image, name string) []byte {
	t.Helper()
	file, err := pe.NewFile(bytes.NewReader(made.Data))
	if err != nil {
		t.Fatal(err)
	}
	s := file.Section(name)
	if s == nil {
		t.Fatalf("the image has no section %s", name)
	}
	data, err := s.Data()
	if err != nil {
		t.Fatal(err)
	}
	return data[:min(len(data), int(s.VirtualSize))]
}

// bootServer starts a boot server on loopback. It returns its port and a function that returns all received reports and
// the state derived from them.
func bootServer(t *testing.T) (port string, reported func() (string, bootserver.Machine)) {
	t.Helper()
	s, err := bootserver.New(bootserver.Config{Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var all bytes.Buffer
	machines := s.ForMachines()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		r.Body = io.NopCloser(io.TeeReader(r.Body, &all))
		machines.ServeHTTP(w, r)
		all.WriteByte('\n')
	}))
	t.Cleanup(server.Close)
	_, port, _ = net.SplitHostPort(server.Listener.Addr().String())
	return port, func() (string, bootserver.Machine) {
		mu.Lock()
		defer mu.Unlock()
		if rows := s.List().Machines; len(rows) == 1 {
			return all.String(), rows[0].Machine
		}
		return all.String(), bootserver.Machine{}
	}
}

// guestImage builds an image with this test binary as the program.
func guestImage(t *testing.T, kernel testenv.KernelFiles, services []boot.Service) *image.Image {
	t.Helper()
	program := filepath.Join(t.TempDir(), "program")
	build := exec.Command("go", "test", "-c", "-trimpath", "-ldflags=-s -w", "-o", program, "writ/efi/boot")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if said, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the tests: %v\n%s", err, said)
	}
	recipe := image.Recipe{Modules: os.DirFS(kernel.Modules), Settings: []string{
		"writ.supervisor=https://10.0.2.2:7441", "writ.redis=rediss://10.0.2.2:6379/0",
	}, Services: services}
	usual, err := texts.Text(texts.For(filepath.Base(kernel.Modules)))
	if err != nil {
		t.Fatal(err)
	}
	of, err := texts.Parse([]byte(usual))
	if err != nil {
		t.Fatal(err)
	}
	recipe.Cmdline, recipe.Wanted, recipe.Start = of.Cmdline, of.Modules.Wanted, of.Modules.Start
	recipe.Packages, recipe.Extra = os.DirFS("/"), []image.Extra{{Name: of.Programs[0].At, Program: true}}
	for file, into := range map[string]*[]byte{
		testenv.Unpacked(t, testenv.EFIStub): &recipe.Stub, kernel.Image: &recipe.Kernel, program: &recipe.Program, testenv.Need(t, "mkfs.btrfs"): &recipe.Extra[0].Data,
	} {
		if *into, err = os.ReadFile(file); err != nil {
			t.Fatal(err)
		}
	}
	made, err := recipe.Build()
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// QEMU starts a guest with the kernel and the files of an image, without firmware. The first process prepares the
// machine. The runner finds everything it needs, and no secret in unexpected places.
//
// Promise: Machines from an image: A process of a machine from an image can have its own root, as containers need.
// How: The first process copies the kernel's files to their own file system and restarts there.
//
// Promise: Machines from an image: Services of an image run before the runner and until it has ended; a service that
// ends is restarted after 1 to 30 s with its reason on the console.
// How: The first process starts them in order and waits for the socket of each.
// Also: TestServicesThatCannotRunAreRefused, TestAServiceThatFailsIsOnThePage,
// TestAProgramThatEndsAgainAndAgainIsStartedLessOften
//
// Promise: Machines from an image: With `writ.vlan` a card sends only frames of its VLAN and has its addresses there;
// if the kernel lacks the module, the console names it.
// How: netlink; the card itself has no address.
// Also: TestCardJoinsItsVLANOrReportsMissingSupport
//
// Promise: Commands and hosts: A machine from a node image keeps the log lines of its first process, services and
// kernel warnings, without secrets.
// How: The first process writes the rings that the runner reads; lines from before the disk was mounted are included.
// Also: TestLinesFromBeforeTheDiskWasThereAreKept, TestWarningsOfTheKernelAreFound.
func TestTheFirstProcessPreparesAMachine(t *testing.T) {
	t.Parallel()
	qemu, kernel := testenv.Need(t, "qemu-system-x86_64"), testenv.Kernel(t)
	made, dir := guestImage(t, kernel, []boot.Service{
		{Name: "faulty", Command: []string{boot.Program, "faulty"}},
		{Name: "slow", Command: []string{boot.Program, "service"}, Socket: serviceSocket},
	}), t.TempDir()
	initrd := filepath.Join(dir, "initrd")
	if err := os.WriteFile(initrd, section(t, made, ".initrd"), 0o600); err != nil {
		t.Fatal(err)
	}
	disk := filepath.Join(dir, "disk")
	if err := errors.Join(os.WriteFile(disk, nil, 0o600), os.Truncate(disk, 128<<20)); err != nil {
		t.Fatal(err)
	}
	_, clock, _ := net.SplitHostPort(ntpstub.Serve(t, "127.0.0.1:0", 2*time.Hour))
	server, reported := bootServer(t)
	// Not the first address, so that the order of stages is fixed.
	wire := serveVLAN(t, func() bool { said, _ := reported(); return said != "" })
	// The guest does not exit after an error.
	ctx, stop := context.WithTimeout(t.Context(), 2*time.Minute)
	defer stop()
	began := time.Now()
	said, err := exec.CommandContext(ctx, qemu, "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot", "-serial", "stdio",
		"-machine", "q35", "-accel", "tcg", "-cpu", "max", "-m", "512", "-kernel", kernel.Image, "-initrd", initrd, "-append", "console=ttyS0 quiet panic=-1 no_timer_check writ.ntp=10.0.2.2:"+clock+" writ.boot=http://10.0.2.2:"+server+progress.Path+"52-54-00-12-34-56 "+guestWords,
		// No server answers here.
		"-netdev", "hubport,id=n1,hubid=1", "-device", "virtio-net-pci,netdev=n1,romfile=,addr=5",
		"-netdev", "user,id=n0,ipv4=on,ipv6=on", "-device", "virtio-net-pci,netdev=n0,romfile=,addr=6",
		"-netdev", "socket,id=n2,connect="+wire, "-device", "virtio-net-pci,netdev=n2,romfile=,addr=7",
		"-drive", "if=none,id=d0,format=raw,file="+disk, "-device", "virtio-blk-pci,drive=d0,serial=S-GUEST-1").CombinedOutput()
	text := strings.ReplaceAll(string(said), "\r", "")
	t.Logf("output of the guest after %.1f s:\n%s", time.Since(began).Seconds(), text)
	if err != nil {
		t.Fatal(err)
	}
	const clockLine = "clock    20"
	if _, after, found := strings.Cut(text, clockLine); found {
		shown, err := time.Parse(time.RFC3339, "20"+after[:len("26-11-26T05:00:00Z")])
		if ahead := shown.Sub(began); err != nil || ahead < time.Hour || ahead > 3*time.Hour {
			t.Errorf("the clock is %s ahead, %v; the time server is two hours", ahead, err)
		}
	}
	for _, want := range []string{clockLine, "clock    set by ", "start    writ of a test on Linux 6.", "data     /dev/vda, btrfs made with the label of-guest-1", "eth1 10.0.2.15/24, gateway 10.0.2.2, by DHCP",
		"eth1 fec0::5054:ff:fe12:3457/64, gateway fe80::2, advertised by a router for ", "eth2.7 " + vlanCard + ", by DHCP from 192.0.2.1", "service  faulty ended with exit code 3: no such (redacted); starts again in 1s",
		"watchdog Software Watchdog restarts the machine if it hangs for 60 s", "service  slow is ready", "the runner says (redacted)", "--- PASS: TestInside", "shutdown requested", "bye"} {
		if !strings.Contains(text, want) {
			t.Errorf("the output of the guest lacks %q", want)
		}
	}
	if label, err := exec.Command(testenv.Need(t, "blkid"), "-p", "-s", "LABEL", "-o", "value", disk).Output(); err != nil || string(label) != "of-guest-1\n" {
		t.Errorf("the disk has the label %q, %v", label, err)
	}
	reports, last := reported()
	t.Logf("reports to the boot server:\n%s", reports)
	at := 0
	for _, want := range []string{`"start","text":"writ of a test on Linux 6.`, `"modules"`, `"network","text":"eth1 10.0.2.15/24`, `"data","text":"/dev/vda, btrfs`, `"clock"`, `"service","text":"slow is ready"`, `"runner","text":"started"`, `"joined"`, `"off","text":"shutdown requested"`} {
		found := strings.Index(reports[at:], `{"stage":`+want)
		if found < 0 {
			t.Errorf("report %s is missing or out of order", want)
			continue
		}
		at += found
	}
	at = 0
	for _, stage := range boot.StagesOf(guestWords+" writ.boot=http://10.0.2.2/", make([]boot.Service, 2)) {
		found := strings.Index(reports[at:], `{"stage":"`+stage+`"`)
		if found < 0 {
			t.Errorf("stage %s is not in the order of its page", stage)
			continue
		}
		at += found
	}
	if last.MAC != "52:54:00:12:34:56" || last.Step != progress.StageOff || last.Failed {
		t.Errorf("the boot server has %+v", last)
	}
	for _, not := range []string{guestToken, "canary"} {
		if strings.Contains(reports, not) {
			t.Errorf("the reports contain %q", not)
		}
	}
	for _, not := range []string{guestToken, "canary", "error:", "--- FAIL", "did not exit", "watchdog did not stop"} {
		if strings.Contains(text, not) {
			t.Errorf("the output of the guest contains %q", not)
		}
	}
}
