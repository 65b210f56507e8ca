package netconfig

import (
	"net/netip"
	"os"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"

	"writ/efi/progress"
	"writ/internal/test/testenv"
)

// A card is in the configured VLAN and has no address outside it. If the kernel lacks VLANs, the console names the
// missing module and its package.
func TestCardJoinsItsVLANOrReportsMissingSupport(t *testing.T) {
	t.Parallel()
	if !testenv.OwnNetns(t) {
		return
	}
	l := newLAN(t)
	l.settings.VLAN, l.settings.Interface = 7, "card"
	l.settings.Addresses = []netip.Prefix{netip.MustParsePrefix("10.9.0.4/24")}
	l.start()
	l.eventually("the card is in its VLAN, or cannot be", func() bool {
		return len(l.Network.up) > 0 || strings.Contains(l.Network.String(), "cannot be used: make the VLAN 7 of card: this image has no module 8021q")
	})
	if _, err := os.Stat("/proc/net/vlan"); err != nil {
		l.says("error: make the VLAN 7 of card: this image has no module 8021q")
		l.says("--module 8021q")
		l.says("linux-image-amd64")
		if hint := progress.HintOf(l.Network.noNetwork("card")); !strings.Contains(hint, "--module 8021q") {
			t.Errorf("hint on the page = %s", hint)
		}
		return
	}
	l.gets("card.7 10.9.0.4/24, as configured")
	outside, err := netlink.LinkByName("card")
	if err != nil {
		t.Fatal(err)
	}
	if all, err := netlink.AddrList(outside, netlink.FAMILY_ALL); len(all) > 0 || err != nil {
		t.Errorf("outside of the VLAN the card has %v, %v", all, err)
	}
}
