// Package bound limits texts and values before the supervisor stores or shows them, without interpreting them.
//
// A signature proves which node sent a message, not that the node is honest. The functions reduce a message to values
// that an honest node can send. A hostile node then harms only its own work, and cannot grow the journal or the links
// without limit.
package bound

import (
	"net/netip"

	"writ"
	"writ/internal/cbor"
	"writ/internal/clip"
	"writ/scripts"
)

const (
	// MaxText limits a text for people from outside the supervisor, in bytes.
	MaxText = 4 << 10
	// MaxWord limits a name from outside the supervisor, in bytes.
	MaxWord = 256
	// MaxAmount limits an amount from outside the supervisor. Sums of such amounts do not overflow.
	MaxAmount = 1 << 40
)

// Amount returns n if it is between 0 and MaxAmount, else the nearer limit.
func Amount(n int64) int64 { return min(max(n, 0), MaxAmount) }

// Limits of the addresses of a resource. An honest node has fewer addresses: 8 networks of two families, and 32 ports
// at the maxOpens addresses of the node.
const (
	maxMoreAddresses = 16
	maxPublished     = 32 * maxOpens
)

// Standing shortens the texts in a resource's standing (state, health and addresses), and removes invalid addresses and
// published ports. It does not change the lists of s in place.
func Standing(s writ.Standing) writ.Standing {
	s.State, s.Address, s.IPv4 = clip.Text(s.State, MaxWord), clip.Text(s.Address, MaxWord), clip.Text(s.IPv4, MaxWord)
	s.Health = clip.Text(s.Health, MaxWord)
	s.MoreAddresses = valid(s.MoreAddresses, maxMoreAddresses, isAddress)
	s.Published = valid(s.Published, maxPublished, func(p writ.Published) bool {
		isPort := func(port int64) bool { return port >= 1 && port <= 65535 }
		return isAddress(p.Address) && isPort(p.Port) && isPort(p.To) && (p.Protocol == "tcp" || p.Protocol == "udp")
	})
	return s
}

// valid returns the valid items among the first `limit` items, as a new list. It returns nil if no item is valid.
func valid[T any](all []T, limit int, isValid func(T) bool) []T {
	var kept []T
	for _, one := range all[:min(len(all), limit)] {
		if isValid(one) {
			kept = append(kept, one)
		}
	}
	return kept
}

func isAddress(text string) bool {
	a, err := netip.ParseAddr(text)
	return err == nil && a.Zone() == ""
}

// Error returns a copy of err with only its code and its shortened message and hint.
func Error(err *writ.Error) *writ.Error {
	return &writ.Error{Code: err.Code, Message: clip.Text(err.Message, MaxText), Hint: clip.Text(err.Hint, MaxText)}
}

// Size returns the number of bytes that values take in the journal. For values without an encoding, it returns more
// than a run may have.
func Size(values map[string]any) int {
	if len(values) == 0 {
		return 0
	}
	body, err := cbor.Marshal(values)
	if err != nil {
		return scripts.MaxJournal + 1
	}
	return len(body)
}
