package identity

import (
	"crypto/ed25519"
	"encoding/base64"
	"maps"
	"net/url"
	"slices"
	"strings"
	"unicode"

	"golang.org/x/crypto/ssh"

	"writ"
	"writ/identity/header"
	"writ/identity/sshsig"
	"writ/internal/reach"
)

// Text returns the exact bytes to sign, with sorted lists. The error (PAYLOAD_MALFORMED or TOO_LARGE) names the first
// invalid line. Every reference must exist, and every id, name and key must be unique.
func (r *Roster) Text() ([]byte, error) {
	w := &rosterWriter{Writer: new(header.Writer), roster: r, used: map[string]string{}}
	w.known = make(map[string]*Principal, len(r.Principals))
	for i := range r.Principals {
		w.known[r.Principals[i].Name] = &r.Principals[i]
	}
	w.start()
	w.operators()
	w.principals()
	w.authorities()
	w.projects()
	w.bindings()
	w.datacenters()
	w.coordinators()
	w.manualApprovals()
	w.authorityLimits()
	w.silences()
	return w.Text()
}

// The formats of rosters.
const (
	rosterFormatV1 Format = 1
	rosterFormatV2 Format = 2 // with coordinators or manual approvals
	rosterFormatV3 Format = 3 // with limits of authorities or times of silent nodes
	rosterFormatV4 Format = 4 // with a history
)

// Format returns the first format that has all fields of the roster.
func (r *Roster) Format() Format {
	if !r.History.IsZero() && !r.Previous.IsZero() {
		return rosterFormatV4
	}
	if slices.ContainsFunc(r.Authorities, func(a Authority) bool { return a.limited() }) ||
		slices.ContainsFunc(r.Datacenters, func(d Datacenter) bool { return d.Silence != (Silence{}) }) {
		return rosterFormatV3
	}
	if len(r.Coordinators) > 0 ||
		slices.ContainsFunc(r.Datacenters, func(d Datacenter) bool { return d.ManualApproval }) {
		return rosterFormatV2
	}
	return rosterFormatV1
}

// rosterWriter writes the lines of a roster.
type rosterWriter struct {
	*header.Writer
	roster *Roster
	// known maps names to principals. An untrusted roster may have thousands of principals, and Roster.Principal is a
	// linear search.
	known map[string]*Principal
	used  map[string]string // owner of each key that was written, by the key's text
}

// start writes the lines before the first list.
func (w *rosterWriter) start() {
	r := w.roster
	writeFormat(w.Writer, "writ-roster", r.Format(), rosterFormatV1, rosterFormatV4)
	writeCluster(w.Writer, r.Cluster)
	w.Number("version", r.Version, maxRosterVersion)
	w.Window(r.Created, r.Expires, maxRosterValidity)
	w.Check(r.Previous.IsZero() || r.Version > 1, "previous", "version 1 has no previous version")
	w.Line("previous", header.DigestOrDash(r.Previous))
	if r.Format() == rosterFormatV4 {
		w.Line("history", r.History.String())
	}
	root := keyText(w.Writer, "root", r.Root)
	w.Line("root", root)
	w.Check(r.Root == nil || ClusterOf(r.Root) == r.Cluster, "root", "the cluster's id is not the hash of this key")
	w.Number("threshold", r.Threshold, max(1, len(r.Operators)))
}

func (w *rosterWriter) operators() {
	w.Check(len(w.roster.Operators) > 0, "operator", "is missing")
	w.Lines("operator", w.roster.Operators)
	for _, name := range w.roster.Operators {
		p := w.known[name]
		w.Check(p != nil && p.Kind == Person &&
			p.State == Active, "operator", "%q is not an active person of the roster", name)
		w.Check(p == nil ||
			slices.ContainsFunc(p.Keys, func(k PrincipalKey) bool { return k.State == Active }), "operator",
			"%q has no active key and could never sign", name)
	}
	roles := make([]string, len(w.roster.UserVerification))
	for i, role := range w.roster.UserVerification {
		w.Check(RoleActions[role] != nil, "user-verification", "%q is not a role", role)
		roles[i] = string(role)
	}
	w.Lines("user-verification", roles)
}

func (w *rosterWriter) principals() {
	var people, keys []string
	names := map[string]bool{}
	for _, p := range w.roster.Principals {
		w.Check(ValidPrincipal(p.Name) && !names[p.Name], "principal", "%q is an invalid or duplicate name", p.Name)
		names[p.Name] = true
		w.Check(p.Kind == Person || p.Kind == CI, "principal", "%q is not a kind", p.Kind)
		w.state("principal", p.State)
		people = append(people, strings.Join([]string{p.Name, string(p.Kind), string(p.State)}, " "))
		for _, k := range p.Keys {
			w.state("key", k.State)
			keys = append(keys, strings.Join([]string{p.Name, string(k.State), w.own("key", p.Name, k.Key)}, " "))
		}
	}
	w.Lines("principal", people)
	w.Lines("key", keys)
}

func (w *rosterWriter) projects() {
	var tenants, projects []string
	ids, names := map[string]bool{}, map[string]bool{}
	for _, t := range w.roster.Tenants {
		w.uniqueID("tenant", string(t.ID), t.Name, ids, names, "")
		tenants = append(tenants, string(t.ID)+" "+t.Name)
	}
	known := maps.Clone(ids)
	ids, names = map[string]bool{}, map[string]bool{}
	for _, p := range w.roster.Projects {
		w.uniqueID("project", string(p.ID), p.Name, ids, names, string(p.Tenant))
		w.Check(p.Tenant == "" ||
			known[string(p.Tenant)], "project", "%s has the tenant %q, which is not in the roster", p.Name, p.Tenant)
		projects = append(projects, strings.Join([]string{string(p.ID), p.Name, header.OrDash(string(p.Tenant))}, " "))
	}
	w.Lines("tenant", tenants)
	w.Lines("project", projects)
}

func (w *rosterWriter) bindings() {
	projects := map[writ.ProjectID]bool{AllProjects: true}
	for _, p := range w.roster.Projects {
		projects[p.ID] = true
	}
	var bindings []string
	for _, b := range w.roster.Bindings {
		w.Check(w.known[b.Principal] != nil, "binding", "%q is not in the roster", b.Principal)
		w.Check(RoleActions[b.Role] != nil, "binding", "%q is not a role", b.Role)
		w.Check(projects[b.Project], "binding", "the project %q is not in the roster", b.Project)
		w.Check(!b.Destructive || b.Role == Deployer, "binding", "only deployers can have the destructive flag")
		bindings = append(bindings, strings.Join([]string{
			b.Principal, string(b.Role), string(b.Project), header.YesNo(b.Destructive), header.TimeOrDash(b.Expires),
		}, " "))
	}
	w.Lines("binding", bindings)
}

func (w *rosterWriter) datacenters() {
	var datacenters []string
	ids, names, keys := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, d := range w.roster.Datacenters {
		w.uniqueID("datacenter", string(d.ID), d.Name, ids, names, "")
		w.Check(writ.ValidName(d.Region), "datacenter", "%q is not the name of a region", d.Region)
		w.Check(len(d.SupervisorKey) == ed25519.PublicKeySize && !keys[string(d.SupervisorKey)], "datacenter",
			"%s has no key, or the key of another owner", d.Name)
		keys[string(d.SupervisorKey)] = true
		use := "enabled"
		if !d.Enabled {
			use = "disabled"
		}
		words := []string{string(d.ID), d.Name, d.Region, use, keyText(w.Writer, "datacenter", sshsig.SSHKey(d.SupervisorKey))}
		for _, k := range slices.Sorted(maps.Keys(d.Labels)) {
			w.Check(writ.ValidLabel(k, d.Labels[k]), "datacenter", "%s=%s is not a valid label", k, d.Labels[k])
			words = append(words, k+"="+d.Labels[k])
		}
		datacenters = append(datacenters, strings.Join(words, " "))
	}
	w.Lines("datacenter", datacenters)
}

func (w *rosterWriter) coordinators() {
	var coordinators []string
	ids, names, keys, urls := map[string]bool{}, map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, d := range w.roster.Datacenters {
		keys[string(d.SupervisorKey)] = true
	}
	for _, c := range w.roster.Coordinators {
		w.uniqueID("coordinator", c.ID, c.Name, ids, names, "")
		w.Check(len(c.Key) == ed25519.PublicKeySize &&
			!keys[string(c.Key)], "coordinator", "%s has no key, or the key of another owner", c.Name)
		keys[string(c.Key)] = true
		w.Check(len(c.URLs) > 0, "coordinator", "%s has no URL", c.Name)
		for _, u := range c.URLs {
			w.Check(validCoordinatorURL(u) &&
				!urls[u], "coordinator", "%q is not like https://writ.example.org:7440, or a duplicate", header.Clip(u))
			urls[u] = true
		}
		words := append([]string{c.ID, c.Name, keyText(w.Writer, "coordinator", sshsig.SSHKey(c.Key))},
			w.Sorted("coordinator", c.URLs)...)
		coordinators = append(coordinators, strings.Join(words, " "))
	}
	w.Lines("coordinator", coordinators)
}

func (w *rosterWriter) manualApprovals() {
	var datacenters []string
	for _, d := range w.roster.Datacenters {
		if d.ManualApproval {
			datacenters = append(datacenters, string(d.ID))
		}
	}
	w.Lines("manual-approval", datacenters)
}

// validCoordinatorURL reports whether s is a URL with a host and without path and query. With the scheme http, the host
// must be a loopback address.
func validCoordinatorURL(s string) bool {
	u, err := url.Parse(s)
	if err != nil || u.Hostname() == "" || strings.ToLower(s) != s || u.String() != s || s != u.Scheme+"://"+u.Host ||
		strings.ContainsFunc(s, unicode.IsSpace) {
		return false
	}
	return u.Scheme == "https" && u.Port() != "443" || u.Scheme == "http" && reach.Loopback(u.Hostname())
}

// own formats a key, and checks that it has no other owner.
func (w *rosterWriter) own(label, who string, key ssh.PublicKey) string {
	text := keyText(w.Writer, label, key)
	w.Check(w.used[text] == "", label, "%s and %s have the same key", w.used[text], who)
	w.used[text] = who
	return text
}

func (w *rosterWriter) state(key string, s State) {
	w.Check(s == Active || s == Removed || s == Revoked, key, "%q is not a state", s)
}

// keyText formats a key as in an authorized_keys file.
func keyText(w *header.Writer, label string, key ssh.PublicKey) string {
	if key == nil {
		w.Fail(label, "the key is missing")
		return "-"
	}
	if t := key.Type(); t != ssh.KeyAlgoED25519 && t != ssh.KeyAlgoSKED25519 {
		w.Fail(label, "keys of the type %s are not allowed here", t)
	}
	return keyLine(key)
}

func keyLine(key ssh.PublicKey) string {
	return key.Type() + " " + base64.StdEncoding.EncodeToString(key.Marshal())
}

// uniqueID checks that an id is unique, and that a name is unique within scope.
func (w *rosterWriter) uniqueID(key, id, name string, ids, names map[string]bool, scope string) {
	w.Check(writ.ValidUUID(id) && !ids[id], key, "%q is not a UUID, or a duplicate", id)
	w.Check(writ.ValidName(name) && !names[scope+"/"+name], key, "%q is an invalid or duplicate name", name)
	ids[id], names[scope+"/"+name] = true, true
}
