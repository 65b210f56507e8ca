package endpoint

import (
	"slices"
	"testing"

	"writ"
)

func TestResourceHasAllItsAddresses(t *testing.T) {
	s := writ.Standing{
		State: "running", Address: "fd00::7", IPv4: "10.0.0.2", MoreAddresses: []string{"fd00:1::7", "10.1.0.2", "fd00::7"},
		Published: []writ.Published{
			{Address: "192.0.2.10", Port: 8080, To: 80, Protocol: "tcp"},
			{Address: "2001:db8::10", Port: 8080, To: 80, Protocol: "tcp"},
			{Address: "2001:db8::10", Port: 53, To: 53, Protocol: "udp"},
		},
	}
	want := []string{
		"192.0.2.10:8080", "[2001:db8::10]:8080", "[2001:db8::10]:53/udp", "fd00::7", "10.0.0.2", "fd00:1::7", "10.1.0.2",
	}
	if got := All(s); !slices.Equal(got, want) {
		t.Errorf("addresses are %q, want %q", got, want)
	}
	if got := All(writ.Standing{State: "ready"}); len(got) > 0 {
		t.Errorf("a resource without addresses has %q", got)
	}
}
