package netconfig

import (
	"net"
	"testing"

	"writ"
)

func TestANodeIsNamedByItsFirstCard(t *testing.T) {
	if got := nameFor(net.HardwareAddr{0x52, 0x54, 0, 1, 2, 0xff}); got != "node-5254000102ff" || !writ.ValidName(got) {
		t.Errorf("nameFor = %q", got)
	}
	if got := nameFor(nil); !writ.ValidName(got) {
		t.Errorf("without a card the name is %q", got)
	}
}
