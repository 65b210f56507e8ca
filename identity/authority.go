package identity

import (
	"cmp"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"

	"writ"
)

const (
	// MaxCertificateLife is how long a certificate may be valid in all, unless its authority says less.
	MaxCertificateLife = 24 * time.Hour

	minCertificateLife = time.Minute
	// backdated is how much longer it may be: what makes certificates sets their beginning back, for clocks that are behind. ssh-keygen does so by
	// up to 118 s, step-ca by 60 s, Vault by 30 s.
	backdated = 2 * time.Minute
	maxKeyIDs = 32 // patterns of one principal
)

// Authority is a key whose OpenSSH user certificates stand for CI principals. It is for nothing else: no principal has the same key, and neither
// has the root, a supervisor or a coordinator.
type Authority struct {
	Name       string
	State      State
	Key        ssh.PublicKey
	Principals []string // for which it may make certificates; of kind CI

	// What earlier versions of writ cannot read. With any of it the roster has the format v3.

	Life    time.Duration       // how long a certificate may be valid in all; 0 stands for MaxCertificateLife
	Expires time.Time           // its certificates count until then; zero if for ever
	KeyIDs  map[string][]string // patterns by principal: one must match the key id of a certificate. A principal without any takes all key ids
}

// MaxLife returns how long a certificate of the authority may be valid in all.
func (a *Authority) MaxLife() time.Duration { return cmp.Or(a.Life, MaxCertificateLife) }

// limited reports whether it says what the formats before v3 cannot.
func (a *Authority) limited() bool {
	return a.timed() || len(a.KeyIDs) > 0
}

func (a *Authority) timed() bool { return a.MaxLife() != MaxCertificateLife || !a.Expires.IsZero() }

// standsFor reports whether a certificate of the authority stands for a principal: the certificate and the authority both name it, and the key id
// matches.
func (a *Authority) standsFor(cert *ssh.Certificate, principal string) bool {
	return slices.Contains(cert.ValidPrincipals, principal) && slices.Contains(a.Principals, principal) && a.takes(cert.KeyId, principal)
}

// takes reports whether a key id matches a pattern of a principal that has any.
func (a *Authority) takes(keyID, principal string) bool {
	patterns := a.KeyIDs[principal]
	return len(patterns) == 0 || slices.ContainsFunc(patterns, func(p string) bool {
		prefix, open := strings.CutSuffix(p, "*")
		return keyID == p || open && strings.HasPrefix(keyID, prefix)
	})
}

// keyIDPattern is a whole key id, or its beginning and a star. The beginning has at least three characters and ends with a mark: after a letter or
// digit, the star of one repository would match another whose name is longer.
var keyIDPattern = regexp.MustCompile(`^([!-)+-~]{1,128}|[!-)+-~]{2,127}[!-)+-/:-@[-` + "`" + `{-~]\*)$`)

// ValidKeyIDPattern reports whether s says which key ids of certificates are accepted: "ci-1234", or "repo:acme/shop:*" for all that begin so.
func ValidKeyIDPattern(s string) bool { return keyIDPattern.MatchString(s) }

// AuthorityNamed finds an authority by its name, nil if there is none.
func (r *Roster) AuthorityNamed(name string) *Authority {
	return find(r.Authorities, func(a *Authority) bool { return a.Name == name })
}

// authorityOf finds the authority that made a certificate, nil if it is none of the roster. Its key alone says which that is.
func (r *Roster) authorityOf(cert *ssh.Certificate) *Authority {
	return r.owners()[string(cert.SignatureKey.Marshal())].authority
}

// writeAuthorities writes the lines of the formats v1 and v2. own claims a key for its only owner.
func (r *Roster) writeAuthorities(w *textWriter, principals map[string]*Principal, own func(label, who string, key ssh.PublicKey) string) {
	machines := r.machineKeys()
	names := map[string]bool{}
	var authorities []string
	for _, a := range r.Authorities {
		w.check(writ.ValidName(a.Name) && !names[a.Name], "authority", "%q is not a proper name, or there twice", a.Name)
		names[a.Name] = true
		w.state("authority", a.State)
		w.check(len(a.Principals) > 0, "authority", "%s names no key", a.Name)
		for _, name := range a.Principals {
			p := principals[name]
			w.check(p != nil && p.Kind == CI, "authority", "%q is not a ci principal of the roster", name)
		}
		key := own("authority", a.Name, a.Key)
		w.check(machines[key] == "", "authority", "%s has the key of %s", a.Name, machines[key])
		words := append([]string{a.Name, string(a.State), key}, w.sorted("authority", a.Principals)...)
		authorities = append(authorities, strings.Join(words, " "))
	}
	w.lines("authority", authorities)
}

// machineKeys are the keys of the root, of supervisors and of coordinators as the roster has them, with whose they are.
func (r *Roster) machineKeys() map[string]string {
	keys := make(map[string]string)
	add := func(key ssh.PublicKey, whose string) {
		if key != nil {
			keys[keyLine(key)] = whose
		}
	}
	add(r.Root, "the root")
	for _, d := range r.Datacenters {
		add(SSHKey(d.SupervisorKey), "the supervisor of "+d.Name)
	}
	for _, c := range r.Coordinators {
		add(SSHKey(c.Key), "the coordinator "+c.Name)
	}
	return keys
}

// writeAuthorityLimits writes the lines that the format v3 adds.
func (r *Roster) writeAuthorityLimits(w *textWriter) {
	var limits, keyIDs []string
	for _, a := range r.Authorities {
		life := a.MaxLife()
		w.check(life >= minCertificateLife && life <= MaxCertificateLife && life%time.Second == 0, "authority-limits",
			"certificates of %s cannot be valid for %s: 1 m to 24 h are possible, in whole seconds", a.Name, life)
		if a.timed() {
			expires := "-"
			if !a.Expires.IsZero() {
				w.checkTime("authority-limits", a.Expires)
				expires = formatTime(a.Expires)
			}
			limits = append(limits, strings.Join([]string{a.Name, formatDuration(life), expires}, " "))
		}
		for _, principal := range slices.Sorted(maps.Keys(a.KeyIDs)) {
			patterns := a.KeyIDs[principal]
			w.check(slices.Contains(a.Principals, principal), "authority-key-id", "%s may not make certificates for %q", a.Name, principal)
			w.check(len(patterns) > 0 && len(patterns) <= maxKeyIDs, "authority-key-id", "%s has %d patterns; 1 to %d are possible", principal, len(patterns), maxKeyIDs)
			for _, p := range patterns {
				w.check(ValidKeyIDPattern(p), "authority-key-id", "%q is not a key id, nor like repo:acme/shop:*", clip(p))
				keyIDs = append(keyIDs, strings.Join([]string{a.Name, principal, p}, " "))
			}
		}
	}
	w.lines("authority-limits", limits)
	w.lines("authority-key-id", keyIDs)
}

func (r *textReader) authorities(o *Roster) {
	for _, line := range r.many("authority") {
		f := r.fields(line, 5)
		o.Authorities = append(o.Authorities, Authority{Name: f[0], State: State(f[1]), Key: r.key(f[2:4]), Principals: f[4:]})
	}
}

func (r *textReader) authorityLimits(o *Roster) {
	for _, line := range r.many("authority-limits") {
		f := r.fields(line, 3)
		a := r.authority(o, f[0])
		if a == nil {
			return
		}
		life, err := time.ParseDuration(f[1])
		if err != nil {
			r.fail("a duration such as 30s, 15m or 2h is expected; got %q", clip(f[1]))
		}
		if life != MaxCertificateLife {
			a.Life = life
		}
		if f[2] != "-" {
			if a.Expires, err = time.Parse(timeFormat, f[2]); err != nil {
				r.fail("%q is not a time", clip(f[2]))
			}
		}
	}
	for _, line := range r.many("authority-key-id") {
		f := r.fields(line, 3)
		a := r.authority(o, f[0])
		if a == nil {
			return
		}
		if a.KeyIDs == nil {
			a.KeyIDs = make(map[string][]string)
		}
		a.KeyIDs[f[1]] = append(a.KeyIDs[f[1]], f[2])
	}
}

// authority finds the authority that a line is about.
func (r *textReader) authority(o *Roster, name string) *Authority {
	a := o.AuthorityNamed(name)
	if a == nil {
		r.fail("there is no authority %q", clip(name))
	}
	return a
}
