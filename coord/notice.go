package coord

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"writ/coord/expiry"
	"writ/identity"
)

// notice returns the banner of all dashboard pages about items that expire soon, or "". Expiring roles are shown to
// readers of all projects only: the page of one project must not name people and projects of others.
func (c *Coordinator) notice(ctx context.Context) string {
	roster, now := c.rosters.current.Load(), c.Now()
	text := renewalNotice(roster, now)
	if viewerFrom(ctx).all {
		text = cmp.Or(text, rolesNotice(roster, now))
	}
	return strings.TrimSpace(text + " " + c.certificateNotice(now)) // both, so that neither hides the other
}

// renewalNotice asks for a renewal of the roster, from half of its validity on.
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

// rolesNotice names the next role to expire and counts the others that expire within 30 days.
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

// certificateNotice warns of an expiring or expired certificate for browsers.
func (c *Coordinator) certificateNotice(now time.Time) string {
	for _, e := range c.certificates() {
		switch {
		case e.Ended(now):
			return fmt.Sprintf("The certificate for browsers expired on %s: browsers warn of this page. An operator renews it: %s.",
				e.At.UTC().Format(time.DateOnly), e.Renew)
		case e.Stage(now) > 0:
			return fmt.Sprintf("The certificate for browsers expires on %s. An operator renews it: %s.", e.At.UTC().Format(time.DateOnly), e.Renew)
		}
	}
	return ""
}

// certificates returns the expiry of the certificate for browsers, if there is one.
func (c *Coordinator) certificates() []identity.Expiry {
	if c.PublicCertificate == nil {
		return nil
	}
	from, until := c.PublicCertificate()
	return []identity.Expiry{expiry.ForBrowsers(from, until)}
}

// warnOfEnds logs the items that expire soon.
func (c *Coordinator) warnOfEnds(ctx context.Context, warned identity.Warned) {
	warned.Log(ctx, c.Log, c.ends(), c.Now())
}

// ends lists the expiring items of the roster, of the coordinator and of datacenters.
func (c *Coordinator) ends() []identity.Expiry {
	ends := append(c.certificates(), c.expiring.list()...)
	if c.Certificates != nil {
		if own, err := c.Certificates(); err == nil { // pki show reports the error
			ends = append(ends, expiry.Certificates(c.PublicURL, own)...)
		}
	}
	if roster := c.rosters.current.Load(); roster != nil {
		ends = append(ends, roster.Expiries()...)
	}
	return ends
}
