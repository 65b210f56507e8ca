package client

import (
	"context"
	"slices"
	"time"

	"golang.org/x/crypto/ssh"

	"writ"
	"writ/coord/api"
	"writ/identity"
	"writ/identity/sshsig"
	"writ/internal/meant"
)

// AuthorityGrant holds the rights of an authority's certificates. AddAuthority leaves zero fields unchanged.
type AuthorityGrant struct {
	Principals []string // machines of the roster that the authority may also certify from now on
	KeyIDs     []string // key id patterns that replace the patterns of Principals
	AnyKeyID   bool     // allow all key ids for Principals
	Life       time.Duration
	Expires    time.Time
}

// AddAuthority adds an authority to a roster, or changes the rights of an existing one.
func AddAuthority(r *identity.Roster, name string, key ssh.PublicKey, g AuthorityGrant) error {
	a := r.Authorities.Named(name)
	switch {
	case a == nil && key == nil:
		return writ.Errorf(writ.CodeUsage, "the roster has no authority %q, so a key is needed", name).
			WithHint("writ ca add %s --key FILE.pub", name)
	case a == nil && len(g.Principals) == 0:
		return writ.Errorf(writ.CodeUsage, "the machine that the authority may certify is missing").
			WithHint("--user NAME, after `writ user add NAME --ci --role deployer --project PROJECT`")
	case a == nil:
		r.Authorities = append(r.Authorities, identity.Authority{Name: name, State: identity.Active, Key: key})
		a = r.Authorities.Named(name)
	case a.State != identity.Active:
		return writ.Errorf(writ.CodeConflict, "the authority %s is %s in the roster", name, a.State).
			WithHint("a removed name is never used again: choose another name, and another key if this key may be stolen")
	case key != nil && !same(a.Key, key):
		return writ.Errorf(writ.CodeConflict, "the authority %s has another key", name).
			WithHint("add an authority with another name, and then remove this one")
	case len(g.Principals) == 0 && (len(g.KeyIDs) > 0 || g.AnyKeyID):
		return writ.Errorf(writ.CodeUsage, "--key-id needs the machine of the key ids").WithHint("--user NAME")
	}
	for _, other := range r.Authorities {
		if other.Name != name && same(other.Key, a.Key) {
			return writ.Errorf(writ.CodeConflict, "the authority %s has this key", other.Name).
				WithHint("change that authority: writ ca add %s", other.Name)
		}
	}
	if owner := PrincipalOf(r, a.Key); owner != "" {
		return writ.Errorf(writ.CodeConflict, "the key belongs to %s: the key of an authority must not sign anything else",
			owner)
	}
	for _, p := range g.Principals {
		if err := certify(r, a, p, g); err != nil {
			return err
		}
	}
	if g.Life > 0 {
		a.Life = g.Life
	}
	if !g.Expires.IsZero() {
		a.Expires = g.Expires
	}
	return nil
}

// certify allows an authority to certify a machine.
func certify(r *identity.Roster, a *identity.Authority, principal string, g AuthorityGrant) error {
	p := r.Principal(principal)
	switch {
	case p == nil:
		return writ.Errorf(writ.CodeNotFound, "the roster has no machine %q", principal).
			WithHint("%s", meant.Among(principal, r.Principals, func(p identity.Principal) string { return p.Name },
				"add it first: writ user add "+principal+" --ci --role deployer --project PROJECT"))
	case p.Kind != identity.CI:
		return writ.Errorf(writ.CodeUsage, "%s is a person: certificates are for machines", principal).
			WithHint("add a machine: writ user add NAME --ci")
	}
	if !slices.Contains(a.Principals, principal) {
		a.Principals = append(a.Principals, principal)
	}
	switch {
	case g.AnyKeyID:
		delete(a.KeyIDs, principal)
	case len(g.KeyIDs) > 0:
		for _, pattern := range g.KeyIDs {
			if !identity.ValidKeyIDPattern(pattern) {
				return writ.Errorf(writ.CodeUsage, "--key-id: %q is not a key id or a key id pattern", pattern).
					WithHint("write ci-1234, or repo:acme/shop:* with three characters or more, the last of them a mark, before the star")
			}
		}
		if a.KeyIDs == nil {
			a.KeyIDs = make(map[string][]string)
		}
		a.KeyIDs[principal] = g.KeyIDs
	}
	return nil
}

// RemoveAuthority disables an authority. State Removed keeps accepted runs; Revoked cancels them. A revoked authority
// stays revoked.
func RemoveAuthority(r *identity.Roster, name string, state identity.State) error {
	a := r.Authorities.Named(name)
	if a == nil {
		return writ.Errorf(writ.CodeNotFound, "the roster has no authority %q", name).
			WithHint("%s",
				meant.Among(name, r.Authorities, func(a identity.Authority) string { return a.Name }, "`writ ca list` lists the authorities"))
	}
	a.State = later(a.State, state)
	return nil
}

// Certificate returns the certificate that signed a run, or nil if a plain key signed it. The result does not depend
// on the coordinator: the run id is derived from the signed text, which names its certificate.
func (c Runs) Certificate(
	ctx context.Context, roster *identity.Roster, run api.Run,
) (*identity.Certificate, error) {
	signed, err := c.Signed(ctx, run)
	if err != nil {
		return nil, err
	}
	return identity.CertificateOf(roster, signed)
}

// MayHaveCertificate reports whether a certificate may have signed a run: some authority may certify its signer.
func MayHaveCertificate(roster *identity.Roster, signer string) bool {
	return slices.ContainsFunc(roster.Authorities,
		func(a identity.Authority) bool { return slices.Contains(a.Principals, signer) })
}

// Signed returns the signed text of a run with its signature. It verifies the text against the run id.
func (c Runs) Signed(ctx context.Context, run api.Run) ([]byte, error) {
	answer, err := api.Answer[api.SignedText](c.client.API.GetSigned(ctx, run.Payload))
	if err != nil {
		return nil, err
	}
	text, _, err := sshsig.Split(answer.Signed)
	if err != nil {
		return nil, err
	}
	if got := writ.RunIDOf(writ.DigestOf(text)); got != run.ID {
		return nil, anotherRun(run.ID, got)
	}
	return answer.Signed, nil
}
