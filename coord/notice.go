package coord

import (
	"context"
	"fmt"
	"time"

	"writ/identity"
)

// notice is what every page of the dashboard says of the roster, "" while there is nothing to do.
func (c *Coordinator) notice() string {
	roster, now := c.rosters.current.Load(), c.Now()
	if text := renewalNotice(roster, now); text != "" {
		return text
	}
	return rolesNotice(roster, now)
}

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

// rolesNotice says which role ends next, and how many do within 30 days.
func rolesNotice(r *identity.Roster, now time.Time) string {
	if r == nil {
		return ""
	}
	roles := r.EndingRoles(now)
	if len(roles) == 0 {
		return ""
	}
	text := fmt.Sprintf("A role ends soon: %s. A root operator prolongs it with %s.", roles[0], roles[0].Renew)
	if more := len(roles) - 1; more > 0 {
		text += fmt.Sprintf(" %d more expire within 30 days: see writ user list.", more)
	}
	return text
}

// warnOfEnds logs what in the roster ends by itself.
func (c *Coordinator) warnOfEnds(ctx context.Context, warned identity.Warned) {
	if roster := c.rosters.current.Load(); roster != nil {
		warned.Log(ctx, c.Log, roster, c.Now())
	}
}
