package links

import (
	"slices"
	"strings"

	"writ/identity"
)

// Addresses returns the addresses to link to. These are the configured addresses and, if the roster lists all of them,
// an HTTPS address of every other coordinator of the roster. A configured address that is in no roster, such as the
// address of a proxy, may belong to any coordinator. In that case no other address is added, because two links to the
// same coordinator would end each other. A configured address that only an earlier roster lists belongs to a removed
// coordinator and gets no link. This rule does not apply to a roster without coordinators, as clusters of earlier
// versions have it.
func (l *Links) Addresses() []string {
	roster := l.Rosters.Current()
	var all, known []string
	unclear := false
	for _, address := range l.Coordinators {
		c := roster.Coordinators.At(address)
		switch {
		case c != nil:
			known = append(known, c.ID)
		case len(roster.Coordinators) > 0 && l.Rosters.WasCoordinator(address):
			continue
		default:
			unclear = true
		}
		all = append(all, address)
	}
	if unclear {
		return all
	}
	for _, c := range roster.Coordinators {
		encrypted := slices.IndexFunc(c.URLs, func(u string) bool { return strings.HasPrefix(u, "https:") })
		if encrypted >= 0 && !slices.Contains(known, c.ID) {
			all = append(all, c.URLs[encrypted])
		}
	}
	return all
}

// keysAt returns the coordinator keys that a roster allows at an address. This is the key of the coordinator at that
// address. If the roster does not list the address, the keys of all coordinators are allowed.
func keysAt(r *identity.Roster, address string) string {
	if c := r.Coordinators.At(address); c != nil {
		return c.ID + string(c.Key)
	}
	var keys []string
	for _, c := range r.Coordinators {
		keys = append(keys, c.ID+string(c.Key))
	}
	slices.Sort(keys)
	return strings.Join(keys, "")
}
