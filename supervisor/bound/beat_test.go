package bound

import (
	"slices"
	"strings"
	"testing"

	"writ"
)

func TestAddressNeedsHostAndPort(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"n1:4000": true, "[2001:db8::1]:4000": true, "n1.example.org:65535": true,
		"": false, "n1": false, ":4000": false, "n1:0": false, "n1:65536": false, "n1:http": false,
		"n1/x:4000": false, "user@n1:4000": false, "n1\n:4000": false, "ñ1:4000": false,
		strings.Repeat("n", MaxText) + ":4000": false,
	} {
		if got := Beat(writ.Beat{Health: writ.Health{Transfers: text}}).Transfers; (got == text && text != "") != want {
			t.Errorf("address %.40q became %q, want it kept: %v", text, got, want)
		}
	}
}

func TestCallsAreSortedAndValid(t *testing.T) {
	t.Parallel()
	if got, want := Calls([]int{3, 0, 1, 3, -1, 1 << 40, 2}), []int{1, 2, 3}; !slices.Equal(got, want) {
		t.Errorf("calls are %v, want %v", got, want)
	}
}

func TestOneLineEscapesControlCharacters(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		" one\ttwo\n": "one two", "a\x1b[31mb": "a [31mb", "é": "é", strings.Repeat("x", 30): strings.Repeat("x", 20),
		strings.Repeat("x", 19) + "é": strings.Repeat("x", 19),
	} {
		if got := OneLine(text, 20); got != want {
			t.Errorf("line of %q is %q, want %q", text, got, want)
		}
	}
}

func TestNodeCannotInventNamesOfDevices(t *testing.T) {
	devices := []string{"kvm", "../kvm", "\x1b[2J", "", strings.Repeat("x", 64), "tpm.0_a-b"}
	for range 1000 {
		devices = append(devices, "tun")
	}
	b := Beat(writ.Beat{Health: writ.Health{Drivers: []writ.NodeDriver{{Module: "container", Devices: devices}}}})
	got := b.Health.Drivers[0].Devices
	if len(got) != maxDevices-4 || !slices.Equal(got[:3], []string{"kvm", "tpm.0_a-b", "tun"}) {
		t.Errorf("%d devices, which begin with %q", len(got), got[:min(len(got), 6)])
	}
}
