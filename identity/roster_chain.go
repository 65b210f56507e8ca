package identity

import (
	"time"

	"writ"
)

// RosterChain is a verified roster with the links that prove it from version 1. The zero value is empty.
type RosterChain struct {
	Newest *Roster
	Links  [][]byte
}

// VerifyChain verifies a chain like VerifyRosters, and keeps the necessary links.
func VerifyChain(pin writ.ClusterID, links [][]byte, now time.Time) (RosterChain, error) {
	return RosterChain{}.Extend(pin, links, now)
}

// Extend verifies links that follow the newest roster, and returns the longer chain without unnecessary texts. It skips
// links that the chain already has. The newest roster must not have expired at now; the zero time disables this check.
func (c RosterChain) Extend(pin writ.ClusterID, links [][]byte, now time.Time) (RosterChain, error) {
	newest := c.Newest
	if newest == nil && len(links) == 0 {
		return c, badRoster("there is none")
	}
	texts := make(map[int][]byte)
	for _, link := range c.Links {
		if version, _, err := LinkVersions(link); err == nil {
			texts[version] = link
		}
	}
	for _, link := range links {
		if newest != nil && newest.Has(link) {
			continue
		}
		next, err := follow(pin, newest, link, time.Time{})
		if err != nil {
			return c, err
		}
		newest = next
		texts[next.Version] = link
	}
	if err := newest.notExpired(now); err != nil || newest == c.Newest {
		return c, err
	}
	path, err := newest.WholePath(func(version int) ([]byte, error) {
		if texts[version] == nil {
			return nil, badRoster("the text of version %d is missing", version)
		}
		return texts[version], nil
	})
	return RosterChain{newest, path}, err
}
