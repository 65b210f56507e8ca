package device

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"writ"
	"writ/internal/test/testenv"
)

func TestOffersAreParsed(t *testing.T) {
	t.Parallel()
	const long = "/dev/serial/by-path/pci-0000:00:14.0-usb-0:3:1.0-port0"
	for text, want := range map[string]Offer{
		"kvm=/dev/kvm":               {"kvm", "/dev/kvm", "rw"},
		"ttyUSB0=/dev/ttyUSB0:rwm":   {"ttyUSB0", "/dev/ttyUSB0", "rwm"},
		"tpm.0_a-b=/dev/tpm0:r":      {"tpm.0_a-b", "/dev/tpm0", "r"},
		"meter=" + long:              {"meter", long, "rw"},
		"meter=" + long + ":r":       {"meter", long, "r"},
		"odd=/dev/a=b":               {"odd", "/dev/a=b", "rw"},
		"disk=/dev/disk/by-id/x y:r": {"disk", "/dev/disk/by-id/x y", "r"},
	} {
		if got, err := Parse(text); err != nil || got != want {
			t.Errorf("%q is %+v, %v", text, got, err)
		}
	}
	for text, says := range map[string]string{
		"": "no name", "/dev/kvm": "no name", "=/dev/kvm": "may only have letters", "a/b=/dev/kvm": "may only have letters",
		"-a=/dev/kvm": "may only have letters", strings.Repeat("a", 64) + "=/dev/kvm": "may only have letters",
		"kvm=/dev/kvm:w": "not r, rw or rwm", "kvm=/dev/kvm:": "not r, rw or rwm", "kvm=/dev/kvm:wr": "not r, rw or rwm",
		"kvm=/etc/passwd": "below /dev", "kvm=/dev": "below /dev", "kvm=/dev/": "below /dev", "kvm=/dev/../etc/passwd": "below /dev",
		"kvm=dev/kvm": "below /dev", "kvm=": "below /dev", "kvm=/dev//kvm": "below /dev", "kvm=/dev/k\nvm": "below /dev",
		"a=/dev/null": "each container has its own", "a=/dev/pts/3": "each container has its own", "a=/dev/shm/x": "each container has its own",
		"a=/dev/init": "not a device of the host", "a=/dev/fd/0": "not a device of the host", "a=/dev/stdin": "not a device of the host",
	} {
		if _, err := Parse(text); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v, want %q", text, err, says)
		}
	}
	for _, twice := range [][]string{
		{"a=/dev/a", "a=/dev/b"}, {"a=/dev/a", "b=/dev/a:r"}, {"a=/dev/a", "b=/dev/a/b"}, {"a=/dev/a/b", "b=/dev/a"},
	} {
		if _, err := ParseList(twice); err == nil || !strings.Contains(err.Error(), "its name or path conflicts with a=") {
			t.Errorf("%v: %v", twice, err)
		}
	}
	all, err := ParseList([]string{"b=/dev/b", "a=/dev/ab"})
	if diff := cmp.Diff([]string{"a", "b"}, all.Names()); err != nil || diff != "" {
		t.Error(err, diff)
	}
}

// Symbolic links are followed at each search, and only to devices of the host.
func TestLinksLeadOnlyToDevicesOfTheHost(t *testing.T) {
	const kvm = "/dev/kvm"
	testenv.NeedKVM(t, 0)
	dir := t.TempDir()
	link := filepath.Join(dir, "link")
	var want unix.Stat_t
	if err := unix.Stat(kvm, &want); err != nil {
		t.Fatal(err)
	}
	offer := Offer{Name: "it", Path: link, Access: "r"}
	for target, says := range map[string]string{
		kvm: "", "/dev/null": "not a device of the host", "/dev/shm": "not a device of the host", "/etc/passwd": "not a device of the host",
		"/dev/stdin": "not a device of the host", "/dev/net": "is not a device", "/dev/missing": "no such file", "/proc/self/fd/0": "not a device of the host",
	} {
		if err := os.Symlink(target, link); err != nil {
			t.Fatal(err)
		}
		got, err := offer.Find()
		switch {
		case says == "" && (err != nil || got != Device{Offer: offer, Major: unix.Major(want.Rdev), Minor: unix.Minor(want.Rdev)}):
			t.Errorf("%s is %+v, %v", target, got, err)
		case says != "" && (err == nil || !strings.Contains(err.Error(), says)):
			t.Errorf("%s: %v, want %q", target, err, says)
		}
		if err := os.Remove(link); err != nil {
			t.Fatal(err)
		}
	}
	all := List{{"kvm", kvm, "rw"}, offer}
	there, missing := all.Present()
	if diff := cmp.Diff(List{all[0]}, there); diff != "" || missing == nil {
		t.Error(missing, diff)
	}
	for name, code := range map[string]writ.Code{"kvm": "", "it": writ.CodeDriverRefused, "other": writ.CodeDeviceForbidden} {
		_, err := all.FindAll([]string{"kvm", name})
		if writ.CodeOf(err) != code || err != nil && (writ.AsError(err).Retryable() || writ.AsError(err).Hint == "") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
