package cli

import (
	"context"
	"fmt"
	"time"

	"writ"
	"writ/cmd/writ/internal/client"
	"writ/identity"
	"writ/identity/expiring"
)

// Roster returns the newest roster. If the coordinator is unreachable, it returns the newest roster that this machine
// has stored, so that scripts can be signed offline. Verifiers reject a roster that is too old.
func (e *Env) Roster(ctx context.Context, c *client.Client) (*identity.Roster, error) {
	roster, err := c.Roster.Newest(ctx)
	if writ.CodeOf(err) == writ.CodeUnreachable {
		known, kerr := c.Rosters.Latest()
		if kerr == nil && known != nil {
			e.Warn("%v: using version %d of the roster, which was seen before", err, known.Version)
			roster, err = known, nil
		}
	}
	if err != nil {
		return nil, err
	}
	e.WarnOfAge(roster, time.Now())
	return roster, nil
}

// WarnOfAge warns when half of the validity of a roster has passed.
func (e *Env) WarnOfAge(r *identity.Roster, now time.Time) {
	switch {
	case now.After(r.Expires):
		e.WarnOnce("version %d of the roster expired on %s: no datacenter accepts new work until a root operator signs the next one with `writ "+
			"roster renew`",
			r.Version, r.Expires.Format(time.DateOnly))
	case now.After(r.RenewFrom()):
		e.WarnOnce("version %d of the roster expires on %s: a root operator should sign the next one with `writ roster renew`", r.Version,
			r.Expires.Format(time.DateOnly))
	}
}

// WarnOfRoles warns the signer of roles that end within 30 days.
func (e *Env) WarnOfRoles(r *identity.Roster, who string) {
	for _, role := range expiring.Roles(r, time.Now()) {
		if role.Principal == who {
			e.WarnOnce("%s: a root operator extends it with `%s`", role, role.Renew)
		}
	}
}

// WarnOnce shows a warning unless it was shown before. Otherwise a command that signs twice, and so reads the roster
// twice, would repeat it.
func (e *Env) WarnOnce(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if _, again := e.warned.LoadOrStore(text, true); !again {
		e.Warn("%s", text)
	}
}
