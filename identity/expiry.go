package identity

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"
)

// warnBefore is how long before something expires people are warned of it, the longest first.
var warnBefore = []time.Duration{30 * 24 * time.Hour, 7 * 24 * time.Hour, 24 * time.Hour}

// Expiry is something that ends by itself: a roster, a role or an authority in it, or a certificate that an operator renews. Keys in a roster never do,
// and join tokens last a day at most.
type Expiry struct {
	What      string // "version 3 of the roster", "the role deployer of alice on web-shop"
	Principal string // whose role it is, "" of the roster and of an authority
	Role      Role
	Project   string // its name, "*" for all
	At        time.Time
	Renew     string // what a root operator types
	// Since is when it began, if there are to be no warnings before the last third of its time. A program that renews a certificate does so when
	// that third begins: an earlier warning would tell of nothing that is wrong.
	Since time.Time

	stops string // what an end stops, "" if people are only to know of it
}

// Stage is how many of the warnings, at 30, 7 and 1 days before the end and at the end itself, are due: from 0 to 4. What a roster says of
// itself is due earlier too, see RenewFrom.
func (e Expiry) Stage(now time.Time) int {
	due := 0
	for _, before := range slices.Concat(warnBefore, []time.Duration{0}) {
		tooEarly := !e.Since.IsZero() && before > 0 && before >= e.At.Sub(e.Since)/3
		if !tooEarly && !now.Before(e.At.Add(-before)) {
			due++
		}
	}
	return due
}

// Ended reports whether it has ended.
func (e Expiry) Ended(now time.Time) bool { return !now.Before(e.At) }

// String says when it ends: "the role deployer of alice on web-shop expires on 2026-12-24".
func (e Expiry) String() string { return e.What + " expires on " + e.At.UTC().Format(time.DateOnly) }

// Expiries returns what ends by itself, the next first. A role that somebody has for longer by another binding is not among them.
func (r *Roster) Expiries() []Expiry {
	all := []Expiry{{What: fmt.Sprintf("version %d of the roster", r.Version), At: r.Expires, Renew: "writ roster renew", stops: "no datacenter accepts new work"}}
	for i, b := range r.Bindings {
		p := r.Principal(b.Principal)
		if b.Expires.IsZero() || p == nil || p.State != Active || r.outlived(i) {
			continue
		}
		project := string(b.Project)
		if known := r.Project(b.Project); known != nil {
			project = known.Name
		}
		on := project
		if b.Project == AllProjects {
			on = "all projects"
		}
		renew := fmt.Sprintf("writ user add %s --role %s --project '%s'", b.Principal, b.Role, project)
		if b.Destructive {
			renew += " --destructive"
		}
		all = append(all, Expiry{
			What: fmt.Sprintf("the role %s of %s on %s", b.Role, b.Principal, on), Principal: b.Principal, Role: b.Role, Project: project, At: b.Expires,
			Renew: renew,
		})
	}
	for _, a := range r.Authorities {
		if a.State == Active && !a.Expires.IsZero() {
			all = append(all, Expiry{What: "the authority " + a.Name, At: a.Expires, Renew: fmt.Sprintf("writ ca add %s --valid 2160h", a.Name)})
		}
	}
	slices.SortStableFunc(all, func(a, b Expiry) int { return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.What, b.What)) })
	return all
}

// EndingRoles returns the roles of Expiries that end within the first of the warnings, 30 days, and have not ended.
func (r *Roster) EndingRoles(now time.Time) []Expiry {
	return slices.DeleteFunc(r.Expiries(), func(e Expiry) bool { return e.Principal == "" || e.Stage(now) == 0 || e.Ended(now) })
}

// outlived reports whether another binding gives all that one does, for longer.
func (r *Roster) outlived(i int) bool {
	b := r.Bindings[i]
	for j, other := range r.Bindings {
		longer := other.Expires.IsZero() || other.Expires.After(b.Expires) || other.Expires.Equal(b.Expires) && j < i
		if j != i && longer && other.Principal == b.Principal && other.Role == b.Role &&
			(other.Project == b.Project || other.Project == AllProjects) && (other.Destructive || !b.Destructive) {
			return true
		}
	}
	return false
}

// Warned remembers of what it was logged that it ends, and how near that was. It belongs to one goroutine.
type Warned map[string]int

// Log logs what ends by itself: 30, 7 and 1 days before, and when it has.
func (w Warned) Log(ctx context.Context, log *slog.Logger, all []Expiry, now time.Time) {
	still := make(map[string]bool)
	for _, e := range all {
		still[e.What] = true
		stage, before := e.Stage(now), w[e.What]
		if stage == before {
			continue
		}
		w[e.What] = stage
		switch {
		case e.Ended(now) && e.Principal != "" && before == 0: // long ago, as it was meant
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
