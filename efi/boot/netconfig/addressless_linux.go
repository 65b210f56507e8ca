package netconfig

import (
	"writ"
	"writ/efi/boot/devices"
)

// noCarrier is the state of a card without a cable.
const noCarrier = "has no carrier"

// addressless describes a machine without an address.
type addressless struct {
	cards     int
	bare      int    // number of cards without a cable
	lacks     string // missing drivers and firmware of network cards, "" if unknown
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
		return e.WithHint("correct writ.interface: its card gets the address and the VLAN of the settings")
	default:
		return e.WithHint("check that a DHCP server answers in this network (VLAN), or give the machine writ.address")
	}
}

// noNetwork returns the reason for the missing address, with a remedy. name is the interface of the settings.
func (s *cardSet) noNetwork(name string) error {
	a := addressless{lacks: devices.Lacking(devices.NetworkCards), unmatched: s.unmatched(name), waits: s.String()}
	a.cards, a.bare, a.next = s.count()
	return a.trouble()
}

// count returns the number of cards, and the number of cards without a cable. next is the remedy for an unusable card.
func (s *cardSet) count() (cards, bare int, next string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.cards {
		if c.waits[v4].Text == noCarrier {
			bare++
		}
		next = max(next, c.next)
	}
	return len(s.cards), bare, next
}
