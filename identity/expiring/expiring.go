// Package expiring lists the parts of a roster that expire, and logs warnings before they expire. Other packages create
// Items for certificates and for other things that expire.
package expiring

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"writ/identity"
)

// warnBefore lists the warnings before an expiry, longest first.
var warnBefore = []time.Duration{30 * 24 * time.Hour, 7 * 24 * time.Hour, 24 * time.Hour}

// Item is something that expires: a roster, a role or authority in a roster, or a certificate. Keys in a roster never
// expire. Join tokens are valid for a day at most, so they are not included.
type Item struct {
	What      string // "version 3 of the roster", "the role deployer of alice on web-shop"
	Principal string // principal with the role; "" for a roster or an authority
	Role      identity.Role
	Project   string // name, "*" for all projects
	At        time.Time
	Renew     string // command for a root operator
	// Since is the start of the validity. It is set if warnings must come only in the last third of the validity: a
	// program renews the certificate at the start of that third, so an earlier warning would be a false alarm.
	Since time.Time

	stops string // the effect of the expiry, logged as an error; if "", the expiry is logged as a warning
}

// Due returns the times of the due warnings, earliest first: 30, 7 and 1 days before the expiry, and the expiry itself.
// A roster should be renewed earlier; see RenewFrom.
func (e Item) Due(now time.Time) (due []time.Time) {
	for _, before := range slices.Concat(warnBefore, []time.Duration{0}) {
		tooEarly := !e.Since.IsZero() && before > 0 && before >= e.At.Sub(e.Since)/3
		if at := e.At.Add(-before); !tooEarly && !now.Before(at) {
			due = append(due, at)
		}
	}
	return due
}

// Stage returns the number of due warnings, from 0 to 4.
func (e Item) Stage(now time.Time) int { return len(e.Due(now)) }

// Ended reports whether the item has expired.
func (e Item) Ended(now time.Time) bool { return !now.Before(e.At) }

// String formats the expiry: "the role deployer of alice on web-shop expires on 2026-12-24".
func (e Item) String() string { return e.What + " expires on " + e.At.UTC().Format(time.DateOnly) }

// InRoster lists everything in a roster that expires, earliest first. It omits a role that another binding grants for
// longer.
func InRoster(r *identity.Roster) []Item {
	all := []Item{{
		What: fmt.Sprintf("version %d of the roster", r.Version), At: r.Expires, Renew: "writ roster renew",
		stops: "no datacenter accepts new work",
	}}
	for i, b := range r.Bindings {
		p := r.Principal(b.Principal)
		if b.Expires.IsZero() || p == nil || p.State != identity.Active || outlived(r, i) {
			continue
		}
		project := identity.ProjectName(r, b.Project)
		on := project
		if b.Project == identity.AllProjects {
			on = "all projects"
		}
		renew := fmt.Sprintf("writ user add %s --role %s --project '%s'", b.Principal, b.Role, project)
		if b.Destructive {
			renew += " --destructive"
		}
		all = append(all, Item{
			What: fmt.Sprintf("the role %s of %s on %s", b.Role, b.Principal, on), Principal: b.Principal, Role: b.Role,
			Project: project, At: b.Expires,
			Renew: renew,
		})
	}
	for _, a := range r.Authorities {
		if a.State == identity.Active && !a.Expires.IsZero() {
			all = append(all, Item{
				What: "the authority " + a.Name, At: a.Expires,
				Renew: fmt.Sprintf("writ ca add %s --valid 2160h", a.Name),
			})
		}
	}
	slices.SortStableFunc(all, func(a, b Item) int { return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.What, b.What)) })
	return all
}

// Roles returns the roles that expire within 30 days, the time of the first warning. It omits expired roles.
func Roles(r *identity.Roster, now time.Time) []Item {
	return slices.DeleteFunc(InRoster(r),
		func(e Item) bool { return e.Principal == "" || e.Stage(now) == 0 || e.Ended(now) })
}

// outlived reports whether another binding grants everything that binding i grants, for longer.
func outlived(r *identity.Roster, i int) bool {
	b := r.Bindings[i]
	for j, other := range r.Bindings {
		longer := other.Expires.IsZero() || other.Expires.After(b.Expires) || other.Expires.Equal(b.Expires) && j < i
		if j != i && longer && other.Principal == b.Principal && other.Role == b.Role &&
			(other.Project == b.Project || other.Project == identity.AllProjects) && (other.Destructive || !b.Destructive) {
			return true
		}
	}
	return false
}

// Warned holds the stage of the last logged warning for each expiry. It must not be used concurrently.
type Warned map[string]int

// Log logs each item once 30, 7 and 1 days before its expiry, and at its expiry.
func (w Warned) Log(ctx context.Context, log *slog.Logger, all []Item, now time.Time) {
	still := make(map[string]bool)
	for _, e := range all {
		still[e.What] = true
		stage, before := e.Stage(now), w[e.What]
		if stage == before {
			continue
		}
		w[e.What] = stage
		switch {
		// A role that had expired before the first check needs no warning.
		case e.Ended(now) && e.Principal != "" && before == 0:
		case e.Ended(now) && e.stops != "":
			log.ErrorContext(ctx, e.What+" has expired: "+e.stops, "at", e.At, "fix", e.Renew)
		case e.Ended(now):
			log.WarnContext(ctx, e.What+" has expired", "at", e.At, "fix", e.Renew)
		case stage > before:
			log.WarnContext(ctx, e.String(), "at", e.At, "fix", e.Renew)
		}
	}
	maps.DeleteFunc(w, func(what string, _ int) bool { return !still[what] })
}
