package boot

import (
	"writ"
)

// noCarrier is the state of a card without a cable.
const noCarrier = "has no carrier"

// addressless describes a machine without an address.
type addressless struct {
	cards     int
	bare      int    // number of cards without a cable
	lacks     string // what the image lacks for network cards, "" if unknown
	unmatched string // set if no card matches the settings
	waits     string // pending waits of the cards
	next      string // remedy for an unusable card, "" if all are usable
}

// trouble returns the reason for the missing address, with a remedy.
func (a addressless) trouble() error {
	text := a.waits
	for _, more := range []string{a.unmatched, a.lacks} {
		if more != "" {
			text += "; " + more
		}
	}
	e := writ.Errorf(writ.CodeUnreachable, "no address yet: %s", text)
	switch {
	case a.next != "":
		return e.WithHint("%s", a.next)
	case a.lacks != "" && a.cards == 0:
		return e.WithHint("build the image with the driver (--module), its firmware (--packages), or another kernel")
	case a.lacks != "" && a.cards == a.bare: // the missing firmware may belong to another device
		return e.WithHint("plug in the cable, and check the port of the switch; or build the image with the driver (--module), its firmware (--packages), or another kernel")
	case a.cards == 0:
		return e.WithHint("attach a network card that the kernel of the image supports")
	case a.cards == a.bare:
		return e.WithHint("plug in the cable, and check the port of the switch")
	case a.unmatched != "":
		return e.WithHint("correct %sinterface: its card gets the address and the VLAN of the settings", prefix)
	default:
		return e.WithHint("check that a DHCP server answers in this network (VLAN), or give the machine writ.address")
	}
}
