package cloudhypervisor

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"writ"
	"writ/internal/confine"
	"writ/internal/test/testenv"
	"writ/internal/test/vmmstub"
	"writ/internal/test/vmmstub/guest"
	"writ/sal"
	"writ/sal/saltest"
)

// others simulates the drivers of images, volumes and networks with files below a directory, and real taps.
type others struct {
	dir         string
	busy        string       // the tap held by another program, or ""
	nameservers []netip.Addr // returned for each tap
}

func (o *others) Image(_ context.Context, _ writ.ProjectID, image writ.Ref) (sal.Image, error) {
	path := filepath.Join(o.dir, "images", image.Name)
	info, err := os.Stat(path)
	if err != nil {
		return sal.Image{}, writ.Errorf(writ.CodeResourceUnknown, "there is no image %q", image.Name)
	}
	format := "raw"
	if image.Name == "qcow2" {
		format = "qcow2"
	}
	return sal.Image{Path: path, Format: format, Bytes: info.Size()}, nil
}

func (o *others) Volume(_ context.Context, _ writ.ProjectID, volume writ.Ref) (sal.Volume, error) {
	dir := filepath.Join(o.dir, "volumes", volume.Name)
	if _, err := os.Stat(dir); err != nil {
		return sal.Volume{}, writ.Errorf(writ.CodeResourceUnknown, "there is no volume %q", volume.Name)
	}
	size := int64(1)
	if _, err := os.Stat(filepath.Join(dir, "grown")); err == nil {
		size = 2
	}
	return sal.Volume{UID: volume.UID, Dir: dir, SizeGiB: size}, nil
}

func (o *others) held(owner sal.Owner) string { return filepath.Join(o.dir, "taps", string(owner.UID)) }

func (o *others) Taps(_ context.Context, owner sal.Owner, networks []writ.Ref) ([]sal.Port, error) {
	if len(networks) == 0 {
		return nil, nil
	}
	if err := os.WriteFile(o.held(owner), nil, 0o600); err != nil {
		return nil, err
	}
	var all []sal.Port
	for i, n := range networks {
		device := tapName(o.dir, owner.UID, i)
		if o.busy != "" {
			device = o.busy
		} else if _, err := net.InterfaceByName(device); err != nil {
			if err := ip("tuntap", "add", device, "mode", "tap", "user", "0", "group", "0"); err != nil {
				return nil, err
			}
		}
		if err := ip("link", "set", device, "up", "mtu", "1400"); err != nil {
			return nil, err
		}
		all = append(all, sal.Port{
			Network: writ.ResourceID{Project: owner.Resource.Project, Kind: writ.KindNetwork, Name: n.Name},
			Device:  device,
			MAC:     net.HardwareAddr{2, 0, 0, 0, 0, byte(i)},
			IPv6:    netip.MustParsePrefix(fmt.Sprintf("400:1:2:3:ff0f:%x::2/96", i)),
			Gateway: netip.MustParseAddr(fmt.Sprintf("400:1:2:3:ff0f:%x::1", i)),
			IPv4:    netip.MustParsePrefix("10.0.0.2/24"),
			Router:  netip.MustParseAddr("10.0.0.1"),
			MTU:     1400,

			Nameservers: o.nameservers,
		})
	}
	return all, nil
}

func (o *others) Namespace(context.Context, sal.Owner, []writ.Ref) (string, []sal.Port, error) {
	return "", nil, errors.New("machines need none")
}

func (o *others) Release(_ context.Context, owner sal.Owner) error {
	if err := os.Remove(o.held(owner)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if device := tapName(o.dir, owner.UID, 0); o.busy == "" {
		if _, err := net.InterfaceByName(device); err == nil {
			return ip("link", "delete", device)
		}
	}
	return nil
}

func ip(args ...string) error {
	program, err := testenv.Path("ip")
	if err != nil {
		return err
	}
	if said, err := exec.Command(program, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("ip %s: %w: %s", strings.Join(args, " "), err, said)
	}
	return nil
}

func (o *others) Owners(context.Context) ([]sal.Owner, error) { return nil, nil }

// prepare makes the files that a host has before there are machines.
func prepare(t testing.TB, host string) {
	t.Helper()
	testenv.Cgroup(t, groupsOf(filepath.Join(host, "machine")).Name)
	for _, dir := range []string{"images", "taps", "volumes/root", "volumes/data"} {
		if err := os.MkdirAll(filepath.Join(host, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	kernel, err := os.ReadFile(guest.Tiny(t, guest.Wait))
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string][]byte{"linux": kernel, "firmware": kernel, "initramfs": []byte("an initramfs"), "qcow2": []byte("a disk")} {
		if err := os.WriteFile(filepath.Join(host, "images", name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// open returns a driver on a host, like a starting runner.
func open(host, program string, step func(string)) *Driver {
	o := &others{dir: host}
	return &Driver{
		Inventory: Inventory{Dir: filepath.Join(host, "machine"), Step: step},
		Images:    o, Volumes: o, Networks: o, Accounts: saltest.Accounts(host),
		Program: program, Firmware: filepath.Join(host, "images", "firmware"),
	}
}

// processes returns the PIDs of the machines of a host.
func processes(t testing.TB, host string) []int {
	t.Helper()
	all, err := withArguments(below(host))
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// clear ends the processes of a host.
func clear(t testing.TB, host string) {
	t.Helper()
	for _, pid := range processes(t, host) {
		h, err := hold(pid)
		if err != nil {
			t.Fatal(err)
		}
		if h == nil {
			continue
		}
		if err := errors.Join(h.kill(), h.wait(context.WithoutCancel(t.Context()))); err != nil {
			t.Error(err)
		}
		h.release()
	}
	groups := groupsOf(filepath.Join(host, "machine"))
	all, err := groups.All()
	if err != nil {
		t.Fatal(err)
	}
	for name := range all {
		if err := groups.Remove(context.WithoutCancel(t.Context()), name); err != nil {
			t.Error(err)
		}
	}
	groups.Tidy()
}

func traces(t testing.TB, host string) (all []string) {
	t.Helper()
	for _, pid := range processes(t, host) {
		all = append(all, strings.Join(argumentsOf(pid), " "))
	}
	taps, err := os.ReadDir(filepath.Join(host, "taps"))
	if err != nil {
		t.Fatal(err)
	}
	for _, tap := range taps {
		all = append(all, "tap of "+tap.Name())
	}
	groups, err := groupsOf(filepath.Join(host, "machine")).All()
	if err != nil {
		t.Fatal(err)
	}
	all = slices.AppendSeq(all, maps.Values(groups))
	links, err := net.Interfaces()
	if err != nil {
		t.Fatal(err)
	}
	for uid := range strings.FieldsSeq("uid-web " + string(saltest.RefTo(writ.KindMachine, "subject").UID)) {
		name := tapName(host, writ.UID(uid), 0)
		if slices.ContainsFunc(links, func(l net.Interface) bool { return l.Name == name }) {
			all = append(all, "link "+name)
		}
	}
	return all
}

// tapName returns the name of a machine's tap on a host of a test.
func tapName(host string, owner writ.UID, i int) string {
	sum := sha256.Sum256(fmt.Append(nil, host, owner, i))
	return fmt.Sprintf("wv%x", sum[:5])
}

// networks returns the networks of test machines, or nil if the test cannot make taps.
func networks(t testing.TB) []any {
	f, err := os.OpenFile("/dev/net/tun", os.O_RDWR, 0)
	if err != nil || os.Geteuid() != 0 {
		t.Log("without networks: only root makes taps")
		return nil
	}
	f.Close()
	testenv.Need(t, "ip")
	testenv.NeedTaps(t)
	return []any{saltest.RefTo(writ.KindNetwork, "front")}
}

// setup is a program and the host that its machines need.
type setup struct {
	program string
	prepare func(t testing.TB, host string)
	lame    bool // guests react to nothing: neither to a disk request nor to the power button
	forgets bool // the memory of machines cannot be saved
	real    bool // the program is not a stub
}

// forEachSetup calls a test with the stub of each release, and with the real cloud-hypervisor if that is on PATH. The
// real program gets a real guest if the host can run one, otherwise a guest of a few bytes that reacts to nothing.
func forEachSetup(t *testing.T, test func(t *testing.T, s setup)) {
	for _, release := range vmmstub.Releases {
		t.Run("stub of "+release.String(), func(t *testing.T) {
			if release != vmmstub.Releases[0] {
				testenv.Nightly(t, "the same with "+vmmstub.Releases[0].String())
			}
			test(t, setup{program: vmmstub.BuildOf(t, release), prepare: prepare})
		})
	}
	t.Run("real", func(t *testing.T) {
		s := setup{program: testenv.Need(t, "cloud-hypervisor"), real: true}
		var g guest.Guest
		if s.lame = !virtualises(); s.lame {
			testenv.NeedKVM(t, processUser())
			t.Log("kvm_intel or kvm_amd is not loaded: guests of distributions are not tested")
			g = guest.Guest{Kernel: guest.Tiny(t, guest.Wait)}
		} else {
			g = guest.Build(t)
		}
		s.prepare = func(t testing.TB, host string) {
			prepare(t, host)
			for name, path := range map[string]string{"linux": g.Kernel, "initramfs": g.Initramfs} {
				if path == "" {
					continue
				}
				place := filepath.Join(host, "images", name)
				if err := errors.Join(os.Remove(place), os.Symlink(path, place)); err != nil {
					t.Fatal(err)
				}
			}
		}
		s.forgets = s.lame && forgets(t, s)
		test(t, s)
	})
}

// forgets reports whether the memory of machines cannot be saved on this host: some KVM modules run machines but do not
// report the state of their CPUs.
func forgets(t *testing.T, s setup) bool {
	t.Helper()
	b := newFixtureOn(t, s)
	b.must("machine.create", "web", machineSpec)
	_, err := b.do("machine.snapshot", "web", before)
	if err == nil {
		return false
	}
	if !strings.Contains(err.Error(), "GetNestedState") {
		t.Fatal(err)
	}
	if e := writ.AsError(err); e.Code != writ.CodeDriverRefused || !strings.Contains(e.Hint, "machine.stop, then machine.snapshot") {
		t.Errorf("a kernel without nested state is %s, %q: a retry does not help", e.Code, e.Hint)
	}
	t.Logf("snapshots of running machines are not tried: %v", err)
	return true
}

// processUser returns a user for processes of machines; 0 means the user of the test.
func processUser() uint32 {
	if os.Geteuid() != 0 {
		return 0
	}
	return confine.DefaultFirst
}

// virtualises reports whether unmodified guests run under /dev/kvm here. Some modules run only modified ones.
func virtualises() bool {
	for _, module := range []string{"kvm_intel", "kvm_amd"} {
		if _, err := os.Stat("/sys/module/" + module); err == nil {
			_, err := os.Stat("/dev/kvm")
			return err == nil
		}
	}
	return false
}
