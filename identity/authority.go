package identity

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"

	"writ"
	"writ/identity/header"
	"writ/identity/sshsig"
	"writ/internal/lazyregexp"
)

const (
	// MaxCertificateLife limits the validity of a certificate. An authority may set a lower limit.
	MaxCertificateLife = 24 * time.Hour

	minCertificateLife = time.Minute
	// backdated is added to the allowed validity, because issuers backdate certificates for slow clocks: ssh-keygen by
	// up to 118 s, step-ca by 60 s, Vault by 30 s.
	backdated = 2 * time.Minute
	maxKeyIDs = 32 // patterns per principal
)

// Authority is a key that issues OpenSSH user certificates for CI principals. It has no other use: no principal,
// supervisor or coordinator has the same key, and neither does the root.
type Authority struct {
	Name       string
	State      State
	Key        ssh.PublicKey
	Principals []string // CI principals that it may issue certificates for

	// Earlier versions of writ cannot read the fields below. A roster that sets one of them has at least the format v3.

	Life    time.Duration // longest validity of a certificate; 0 means MaxCertificateLife
	Expires time.Time     // the authority's certificates are invalid afterwards; zero means never
	// KeyIDs holds key id patterns by principal; a certificate's key id must match one. A principal without patterns
	// accepts every key id.
	KeyIDs map[string][]string
}

// MaxLife returns the longest validity of a certificate of the authority.
func (a *Authority) MaxLife() time.Duration { return cmp.Or(a.Life, MaxCertificateLife) }

// limited reports whether the authority has limits, which need at least the format v3.
func (a *Authority) limited() bool {
	return a.timed() || len(a.KeyIDs) > 0
}

func (a *Authority) timed() bool { return a.MaxLife() != MaxCertificateLife || !a.Expires.IsZero() }

// standsFor reports whether a certificate of the authority is valid for a principal: the certificate and the authority
// both name the principal, and the key id matches.
func (a *Authority) standsFor(cert *ssh.Certificate, principal string) bool {
	return slices.Contains(cert.ValidPrincipals, principal) && slices.Contains(a.Principals, principal) &&
		a.acceptsKeyID(cert.KeyId, principal)
}

// acceptsKeyID reports whether keyID matches a pattern of the principal, or the principal has no patterns.
func (a *Authority) acceptsKeyID(keyID, principal string) bool {
	patterns := a.KeyIDs[principal]
	return len(patterns) == 0 || slices.ContainsFunc(patterns, func(p string) bool {
		prefix, open := strings.CutSuffix(p, "*")
		return keyID == p || open && strings.HasPrefix(keyID, prefix)
	})
}

// keyIDPattern matches a complete key id, or a prefix and a star. The prefix has at least three characters and ends
// with a punctuation mark. After a letter or digit, the star would also match repositories with longer names.
var keyIDPattern = lazyregexp.New(`^([!-)+-~]{1,128}|[!-)+-~]{2,127}[!-)+-/:-@[-` + "`" + `{-~]\*)$`)

// ValidKeyIDPattern reports whether s is a valid pattern for key ids: an exact id such as "ci-1234", or a prefix such
// as "repo:acme/shop:*".
func ValidKeyIDPattern(s string) bool { return keyIDPattern.MatchString(s) }

// Authorities is a list of authorities.
type Authorities []Authority

// Named returns the authority with a name, or nil.
func (l Authorities) Named(name string) *Authority {
	return find(l, func(a *Authority) bool { return a.Name == name })
}

// authorityOf returns the authority that issued a certificate, or nil. It finds the authority only by its key.
func authorityOf(r *Roster, cert *ssh.Certificate) *Authority {
	return r.owners()[string(cert.SignatureKey.Marshal())].authority
}

// authorities writes the "authority" lines, which every roster format has.
func (w *rosterWriter) authorities() {
	machines := machineKeys(w.roster)
	names := map[string]bool{}
	var authorities []string
	for _, a := range w.roster.Authorities {
		w.Check(writ.ValidName(a.Name) && !names[a.Name], "authority", "%q is an invalid or duplicate name", a.Name)
		names[a.Name] = true
		w.state("authority", a.State)
		w.Check(len(a.Principals) > 0, "authority", "%s names no principal", a.Name)
		for _, name := range a.Principals {
			p := w.known[name]
			w.Check(p != nil && p.Kind == CI, "authority", "%q is not a ci principal of the roster", name)
		}
		key := w.own("authority", a.Name, a.Key)
		w.Check(machines[key] == "", "authority", "%s has the key of %s", a.Name, machines[key])
		words := append([]string{a.Name, string(a.State), key}, w.Sorted("authority", a.Principals)...)
		authorities = append(authorities, strings.Join(words, " "))
	}
	w.Lines("authority", authorities)
}

// machineKeys maps the keys of the root, supervisors and coordinators to their owners.
func machineKeys(r *Roster) map[string]string {
	keys := make(map[string]string)
	add := func(key ssh.PublicKey, whose string) {
		if key != nil {
			keys[keyLine(key)] = whose
		}
	}
	add(r.Root, "the root")
	for _, d := range r.Datacenters {
		add(sshsig.SSHKey(d.SupervisorKey), "the supervisor of "+d.Name)
	}
	for _, c := range r.Coordinators {
		add(sshsig.SSHKey(c.Key), "the coordinator "+c.Name)
	}
	return keys
}

// authorityLimits writes the "authority-limits" and "authority-key-id" lines, which need at least the format v3.
func (w *rosterWriter) authorityLimits() {
	var limits, keyIDs []string
	for _, a := range w.roster.Authorities {
		life := a.MaxLife()
		w.Check(life >= minCertificateLife && life <= MaxCertificateLife && life%time.Second == 0, "authority-limits",
			"certificates of %s cannot be valid for %s: 1 m to 24 h are allowed, in whole seconds", a.Name, life)
		if a.timed() {
			if !a.Expires.IsZero() {
				w.CheckTime("authority-limits", a.Expires)
			}
			limits = append(limits,
				strings.Join([]string{a.Name, header.FormatDuration(life), header.TimeOrDash(a.Expires)}, " "))
		}
		for _, principal := range slices.Sorted(maps.Keys(a.KeyIDs)) {
			patterns := a.KeyIDs[principal]
			w.Check(slices.Contains(a.Principals, principal), "authority-key-id", "%s may not make certificates for %q", a.Name,
				principal)
			w.Check(len(patterns) > 0 && len(patterns) <= maxKeyIDs, "authority-key-id",
				"%s has %d patterns; 1 to %d are allowed", principal, len(patterns), maxKeyIDs)
			for _, p := range patterns {
				w.Check(ValidKeyIDPattern(p), "authority-key-id", "%q is not a key id, nor like repo:acme/shop:*", header.Clip(p))
				keyIDs = append(keyIDs, strings.Join([]string{a.Name, principal, p}, " "))
			}
		}
	}
	w.Lines("authority-limits", limits)
	w.Lines("authority-key-id", keyIDs)
}

func (r *rosterReader) authorities() {
	for _, line := range r.Many("authority") {
		f := r.Fields(line, 5)
		r.roster.Authorities = append(r.roster.Authorities,
			Authority{Name: f[0], State: State(f[1]), Key: readKey(r.Reader, f[2:4]), Principals: f[4:]})
	}
}

func (r *rosterReader) authorityLimits() {
	for _, line := range r.Many("authority-limits") {
		f := r.Fields(line, 3)
		a := r.authority(f[0])
		if a == nil {
			return
		}
		life, err := time.ParseDuration(f[1])
		if err != nil {
			r.Fail("a duration such as 30s, 15m or 2h is expected; got %q", header.Clip(f[1]))
		}
		if life != MaxCertificateLife {
			a.Life = life
		}
		a.Expires = r.ParseTimeOrDash(f[2])
	}
	for _, line := range r.Many("authority-key-id") {
		f := r.Fields(line, 3)
		a := r.authority(f[0])
		if a == nil {
			return
		}
		if a.KeyIDs == nil {
			a.KeyIDs = make(map[string][]string)
		}
		a.KeyIDs[f[1]] = append(a.KeyIDs[f[1]], f[2])
	}
}

// authority returns the authority that a line names.
func (r *rosterReader) authority(name string) *Authority {
	a := r.roster.Authorities.Named(name)
	if a == nil {
		r.Fail("unknown authority %q", header.Clip(name))
	}
	return a
}
