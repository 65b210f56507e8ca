package netconfig

import (
	"strings"
	"testing"

	"writ/efi/boot/internal/test/manual"
	"writ/efi/progress"
)

func TestTheManualHasTheFaultsOfNetworks(t *testing.T) {
	page := manual.Read(t)
	page.HasLimit(t, "network", askLimit)
	page.HasLimit(t, "network", otherCards)
	page.HasFaults(t,
		addressless{waits: new(Network).String()}.trouble(),
		addressless{lacks: "the network card 8086:100e (0000:00:02.0) has no driver"}.trouble(),
		addressless{lacks: "the image lacks the firmware x.fw"}.trouble(),
		addressless{cards: 1, bare: 1, waits: "eth0 (52:54:00:77:00:50) " + noCarrier}.trouble(),
		addressless{cards: 1, unmatched: "no card matches writ.interface=eth7"}.trouble(),
	)
}

func TestMachineWithoutAddressShowsARemedy(t *testing.T) {
	for _, tt := range []struct {
		machine    addressless
		text, hint string
	}{
		{addressless{waits: "no network card was found"}, "no network card was found", "attach a network card"},
		{addressless{waits: "none", lacks: "X has no driver"}, "none; X has no driver", "build the image with the driver"},
		{addressless{cards: 2, bare: 2, waits: "eth0 waits"}, "eth0 waits", "plug in the cable"},
		{addressless{cards: 2, bare: 2, waits: "eth0 waits", lacks: "X has no driver"}, "eth0 waits; X has no driver", "plug in the cable, and check the port of the switch; or build the image with the driver"},
		{addressless{cards: 2, bare: 1, waits: "eth0 cannot be used", next: "build the image with --module 8021q"}, "eth0 cannot be used", "--module 8021q"},
		{addressless{cards: 2, bare: 1, waits: "eth0 waits"}, "eth0 waits", "check that a DHCP server answers"},
		{addressless{cards: 1, waits: "eth0 waits", lacks: "X has no driver"}, "eth0 waits; X has no driver", "check that a DHCP server answers"},
		{addressless{cards: 1, waits: "eth0 waits", unmatched: "no card is eth7"}, "eth0 waits; no card is eth7", "correct writ.interface"},
	} {
		err := tt.machine.trouble()
		if !strings.Contains(progress.HintOf(err), tt.hint) || err.Error() != "no address yet: "+tt.text {
			t.Errorf("%+v: %v, %s", tt.machine, err, progress.HintOf(err))
		}
	}
}
