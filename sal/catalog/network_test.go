package catalog

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"writ"
)

func TestRulesThatNeverMatchAreRefused(t *testing.T) {
	lan := writ.ResourceID{Project: "p", Kind: writ.KindNetwork, Name: "lan"}
	for name, tt := range map[string]struct {
		from         []string
		only6, both4 bool // whether the rule is refused without and with an IPv4 range
	}{
		"from everywhere": {nil, false, false},
		"from IPv6":       {[]string{"400::/7"}, false, false},
		"from both":       {[]string{"10.0.0.0/8", "400::/7"}, false, false},
		"from IPv4":       {[]string{"10.0.0.0/8"}, true, false},
		"from all IPv4":   {[]string{"0.0.0.0/0"}, true, false},
	} {
		rules := []NetworkRule{{}, {From: tt.from}}
		for hasIPv4, refused := range map[bool]bool{false: tt.only6, true: tt.both4} {
			if err := CheckRules(lan, rules, hasIPv4); (err != nil) != refused {
				t.Errorf("%s, IPv4 %v: %v", name, hasIPv4, err)
			}
		}
	}
}

func TestStandingHasAllAddresses(t *testing.T) {
	container := Container{
		State: "running", Address: "fd00::7", Addresses: []string{"fd00::7", "fd00:1::7"},
		IPv4: IPv4Of([]string{"10.0.0.2", "10.1.0.2"}), LastExitCode: NeverEnded,
		Published: []Published{{"192.0.2.10", 8080, 80, "tcp", "web"}, {"2001:db8::10", 53, 53, "udp", ""}},
	}
	want := writ.Standing{
		State: "running", Address: "fd00::7", IPv4: "10.0.0.2", MoreAddresses: []string{"fd00:1::7", "10.1.0.2"},
		Published: []writ.Published{
			{Address: "192.0.2.10", Port: 8080, To: 80, Protocol: "tcp"},
			{Address: "2001:db8::10", Port: 53, To: 53, Protocol: "udp"},
		},
	}
	if diff := cmp.Diff(want, StandingOf(Values(container))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	odd := map[string]any{"addresses": []any{"a", 7, "b"}, "published": []any{"a", map[string]any{"port": "80"}, map[string]any{"port": int64(8)}}}
	want = writ.Standing{State: Ready, MoreAddresses: []string{"b"}, Published: []writ.Published{{Port: 8, Protocol: "tcp"}}}
	if diff := cmp.Diff(want, StandingOf(odd)); diff != "" {
		t.Errorf("odd values (-want +got):\n%s", diff)
	}
}
