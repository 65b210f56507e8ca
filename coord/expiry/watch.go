package expiry

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"writ"
	"writ/identity"
	"writ/identity/expiring"
)

// Watch reports the expiring items of the roster, of a coordinator and of its datacenters.
type Watch struct {
	Roster func() *identity.Roster // required; returns nil without a roster
	Now    func() time.Time        // required
	Log    *slog.Logger            // required
	// PublicURL names the coordinator in warnings about its own certificates.
	PublicURL string
	// Certificates returns the coordinator's own certificates. It may be nil.
	Certificates func() ([]writ.Certificate, error)
	// Public returns the validity period of the certificate for browsers. It may be nil.
	Public func() (from, until time.Time)
	// Datacenters returns the expiring items of datacenters. It may be nil.
	Datacenters func() []expiring.Item

	warned expiring.Warned
}

// All lists the expiring items.
func (w *Watch) All() []expiring.Item {
	all := w.ForBrowsers()
	if w.Datacenters != nil {
		all = append(all, w.Datacenters()...)
	}
	if w.Certificates != nil {
		if own, err := w.Certificates(); err == nil { // `pki show` reports this error
			all = append(all, Certificates(w.PublicURL, own)...)
		}
	}
	if roster := w.Roster(); roster != nil {
		all = append(all, expiring.InRoster(roster)...)
	}
	return all
}

// ForBrowsers returns the expiry of the certificate for browsers, if there is one.
func (w *Watch) ForBrowsers() []expiring.Item {
	if w.Public == nil {
		return nil
	}
	from, until := w.Public()
	return []expiring.Item{ForBrowsers(from, until)}
}

// Warn logs the items that expire soon, once for each stage. It must not be called concurrently.
func (w *Watch) Warn(ctx context.Context) {
	if w.warned == nil {
		w.warned = make(expiring.Warned)
	}
	w.warned.Log(ctx, w.Log, w.All(), w.Now())
}

// Notice returns the banner of dashboard pages about items that expire soon, or "". It names expiring roles only if
// `everything` is set, because they name people and projects that a reader of one project may not see.
func (w *Watch) Notice(everything bool) string {
	roster, now := w.Roster(), w.Now()
	text := renewalNotice(roster, now)
	if everything {
		text = cmp.Or(text, rolesNotice(roster, now))
	}
	return strings.TrimSpace(text + " " + w.certificateNotice(now)) // both, so that neither hides the other
}

// renewalNotice asks for a renewal of the roster, as soon as half of its validity is over.
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
	roles := expiring.Roles(r, now)
	if len(roles) == 0 {
		return ""
	}
	text := fmt.Sprintf("A role ends soon: %s. A root operator extends it with %s.", roles[0], roles[0].Renew)
	if more := len(roles) - 1; more > 0 {
		text += fmt.Sprintf(" %d more expire within 30 days: see writ user list.", more)
	}
	return text
}

// certificateNotice warns of an expiring or expired certificate for browsers.
func (w *Watch) certificateNotice(now time.Time) string {
	for _, e := range w.ForBrowsers() {
		switch {
		case e.Ended(now):
			return fmt.Sprintf("The certificate for browsers expired on %s: browsers warn of this page. An operator renews it: %s.",
				e.At.UTC().Format(time.DateOnly), e.Renew)
		case e.Stage(now) > 0:
			return fmt.Sprintf("The certificate for browsers expires on %s. An operator renews it: %s.",
				e.At.UTC().Format(time.DateOnly), e.Renew)
		}
	}
	return ""
}
