package boot

import "writ/efi/boot/devices"

// noNetwork returns the reason for the missing address, with a remedy.
func (n *network) noNetwork() error {
	a := addressless{lacks: devices.Lacking(devices.NetworkCards), unmatched: n.unmatched(), waits: n.String()}
	a.cards, a.bare, a.next = n.count()
	return a.trouble()
}

// count returns the number of cards and of those without a cable. next is the remedy for an unusable card.
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
