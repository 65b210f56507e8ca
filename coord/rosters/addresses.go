package rosters

import (
	"net"
	"net/url"
	"strings"

	"writ/internal/reach"
)

// Addresses determines the addresses of one coordinator.
type Addresses struct {
	Configured []string // URLs
	ID         string   // ID of the coordinator in the roster, "" if it has no entry
	TLS        bool     // addresses without TLS are not accepted
	Rosters    *Store
}

// List returns every spelling of the addresses that a supervisor or a person may have signed. A coordinator with TLS
// accepts no address without TLS, even if the roster still has one: another user of a person's machine may listen there
// now, and could relay that person's login.
func (a *Addresses) List() []string {
	var all []string
	known := append([]string{}, a.Configured...)
	if roster := a.Rosters.Current(); roster != nil && a.ID != "" {
		if self := roster.Coordinator(a.ID); self != nil {
			known = append(known, self.URLs...)
		}
	}
	for _, address := range known {
		if a.TLS && !strings.HasPrefix(address, "https:") {
			continue
		}
		address = strings.TrimSuffix(address, "/")
		spellings := []string{address}
		if u, err := url.Parse(address); err == nil && reach.Loopback(u.Hostname()) {
			for _, host := range []string{"127.0.0.1", "localhost", "::1"} {
				spellings = append(spellings, u.Scheme+"://"+net.JoinHostPort(host, u.Port()))
			}
		}
		for _, s := range spellings {
			all = append(all, s, s+"/")
		}
	}
	return all
}
