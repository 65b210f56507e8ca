package coord

import (
	"fmt"
	"time"

	"writ/identity"
)

// rosterNotice is what every page of the dashboard says of the roster, "" while there is nothing to do.
func (c *Coordinator) rosterNotice() string { return renewalNotice(c.rosters.current.Load(), c.Now()) }

// renewalNotice says that a roster is to be renewed, from half of its life on.
func renewalNotice(r *identity.Roster, now time.Time) string {
	switch {
	case r == nil || now.Before(r.RenewFrom()):
		return ""
	case now.After(r.Expires):
		return fmt.Sprintf("Version %d of the roster expired on %s: no datacenter accepts new work. A root operator renews it with writ roster renew.",
			r.Version, r.Expires.Format(time.DateOnly))
	default:
		return fmt.Sprintf("Version %d of the roster expires on %s. A root operator renews it with writ roster renew.",
			r.Version, r.Expires.Format(time.DateOnly))
	}
}
