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
	"writ/internal/reach"
)

// Text returns the exact bytes to sign, with sorted lists. The error (PAYLOAD_MALFORMED or TOO_LARGE) names the first
// invalid line. Every reference must exist, and every id, name and key must be unique.
func (r *Roster) Text() ([]byte, error) {
	w := new(textWriter)
	if r.Format() == rosterFormatV4 {
		w.line("writ-roster", "v4")
	} else {
		w.format("writ-roster", r.Format())
	}
	w.cluster(r.Cluster)
	w.number("version", r.Version, 1, maxRosterVersion)
	w.window(r.Created, r.Expires, maxRosterValidity)
	previous := "-"
	if !r.Previous.IsZero() {
		previous = r.Previous.String()
		w.check(r.Version > 1, "previous", "version 1 has no previous one")
	}
	w.line("previous", previous)
	if r.Format() == rosterFormatV4 {
		w.line("history", r.History.String())
	}
	root := w.keyText("root", r.Root)
	w.line("root", root)
	w.check(r.Root == nil || ClusterOf(r.Root) == r.Cluster, "root", "the cluster's id is not the hash of this key")
	w.number("threshold", r.Threshold, 1, max(1, len(r.Operators)))
	// Principal is a linear search, and an untrusted roster may have thousands.
	principals := make(map[string]*Principal, len(r.Principals))
	for i := range r.Principals {
		principals[r.Principals[i].Name] = &r.Principals[i]
	}
	r.writeOperators(w, principals)
	r.writePrincipals(w, principals)
	r.writeProjects(w)
	r.writeBindings(w, principals)
	r.writeDatacenters(w)
	r.writeCoordinators(w)
	r.writeManualApprovals(w)
	r.writeAuthorityLimits(w)
	r.writeSilences(w)
	return w.text()
}

// rosterFormatV4 is the format of rosters with a history. No other text has it.
const rosterFormatV4 Format = 4

// Format returns the earliest format that has all fields of the roster.
func (r *Roster) Format() Format {
	if !r.History.IsZero() && !r.Previous.IsZero() {
		return rosterFormatV4
	}
	if slices.ContainsFunc(r.Authorities, func(a Authority) bool { return a.limited() }) ||
		slices.ContainsFunc(r.Datacenters, func(d Datacenter) bool { return d.Silence != (Silence{}) }) {
		return FormatV3
	}
	if len(r.Coordinators) > 0 || slices.ContainsFunc(r.Datacenters, func(d Datacenter) bool { return d.ManualApproval }) {
		return FormatV2
	}
	return FormatV1
}

func (r *Roster) writeOperators(w *textWriter, principals map[string]*Principal) {
	w.check(len(r.Operators) > 0, "operator", "there is none")
	w.lines("operator", r.Operators)
	for _, name := range r.Operators {
		p := principals[name]
		w.check(p != nil && p.Kind == Person && p.State == Active, "operator", "%q is not an active person of the roster", name)
		w.check(p == nil || slices.ContainsFunc(p.Keys, func(k PrincipalKey) bool { return k.State == Active }), "operator",
			"%q has no active key and could never sign", name)
	}
	roles := make([]string, len(r.UserVerification))
	for i, role := range r.UserVerification {
		w.check(RoleActions[role] != nil, "user-verification", "%q is not a role", role)
		roles[i] = string(role)
	}
	w.lines("user-verification", roles)
}

func (r *Roster) writePrincipals(w *textWriter, principals map[string]*Principal) {
	var people, keys []string
	used := map[string]string{} // key → owner
	own := func(label, who string, key ssh.PublicKey) string {
		text := w.keyText(label, key)
		w.check(used[text] == "", label, "%s and %s have the same key", used[text], who)
		used[text] = who
		return text
	}
	names := map[string]bool{}
	for _, p := range r.Principals {
		w.check(ValidPrincipal(p.Name) && !names[p.Name], "principal", "%q is an invalid or duplicate name", p.Name)
		names[p.Name] = true
		w.check(p.Kind == Person || p.Kind == CI, "principal", "%q is not a kind", p.Kind)
		w.state("principal", p.State)
		people = append(people, strings.Join([]string{p.Name, string(p.Kind), string(p.State)}, " "))
		for _, k := range p.Keys {
			w.state("key", k.State)
			keys = append(keys, strings.Join([]string{p.Name, string(k.State), own("key", p.Name, k.Key)}, " "))
		}
	}
	w.lines("principal", people)
	w.lines("key", keys)
	r.writeAuthorities(w, principals, own)
}

func (r *Roster) writeProjects(w *textWriter) {
	var tenants, projects []string
	ids, names := map[string]bool{}, map[string]bool{}
	for _, t := range r.Tenants {
		w.uniqueID("tenant", string(t.ID), t.Name, ids, names, "")
		tenants = append(tenants, string(t.ID)+" "+t.Name)
	}
	known := maps.Clone(ids)
	ids, names = map[string]bool{}, map[string]bool{}
	for _, p := range r.Projects {
		w.uniqueID("project", string(p.ID), p.Name, ids, names, string(p.Tenant))
		w.check(p.Tenant == "" || known[string(p.Tenant)], "project", "%s has the tenant %q, which is not in the roster", p.Name, p.Tenant)
		projects = append(projects, strings.Join([]string{string(p.ID), p.Name, orDash(string(p.Tenant))}, " "))
	}
	w.lines("tenant", tenants)
	w.lines("project", projects)
}

func (r *Roster) writeBindings(w *textWriter, principals map[string]*Principal) {
	projects := map[writ.ProjectID]bool{AllProjects: true}
	for _, p := range r.Projects {
		projects[p.ID] = true
	}
	var bindings []string
	for _, b := range r.Bindings {
		w.check(principals[b.Principal] != nil, "binding", "%q is not in the roster", b.Principal)
		w.check(RoleActions[b.Role] != nil, "binding", "%q is not a role", b.Role)
		w.check(projects[b.Project], "binding", "the project %q is not in the roster", b.Project)
		w.check(!b.Destructive || b.Role == Deployer, "binding", "only deployers can have the destructive flag")
		expires := "-"
		if !b.Expires.IsZero() {
			expires = formatTime(b.Expires)
		}
		bindings = append(bindings,
			strings.Join([]string{b.Principal, string(b.Role), string(b.Project), yesNo(b.Destructive), expires}, " "))
	}
	w.lines("binding", bindings)
}

func (r *Roster) writeDatacenters(w *textWriter) {
	var datacenters []string
	ids, names, keys := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, d := range r.Datacenters {
		w.uniqueID("datacenter", string(d.ID), d.Name, ids, names, "")
		w.check(writ.ValidName(d.Region), "datacenter", "%q is not the name of a region", d.Region)
		w.check(len(d.SupervisorKey) == ed25519.PublicKeySize && !keys[string(d.SupervisorKey)], "datacenter",
			"%s has no key, or the key of another owner", d.Name)
		keys[string(d.SupervisorKey)] = true
		use := "enabled"
		if !d.Enabled {
			use = "disabled"
		}
		words := []string{string(d.ID), d.Name, d.Region, use, w.keyText("datacenter", SSHKey(d.SupervisorKey))}
		for _, k := range slices.Sorted(maps.Keys(d.Labels)) {
			w.check(writ.ValidLabel(k, d.Labels[k]), "datacenter", "%s=%s is not a valid label", k, d.Labels[k])
			words = append(words, k+"="+d.Labels[k])
		}
		datacenters = append(datacenters, strings.Join(words, " "))
	}
	w.lines("datacenter", datacenters)
}

func (r *Roster) writeCoordinators(w *textWriter) {
	var coordinators []string
	ids, names, keys, urls := map[string]bool{}, map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, d := range r.Datacenters {
		keys[string(d.SupervisorKey)] = true
	}
	for _, c := range r.Coordinators {
		w.uniqueID("coordinator", c.ID, c.Name, ids, names, "")
		w.check(len(c.Key) == ed25519.PublicKeySize && !keys[string(c.Key)], "coordinator", "%s has no key, or the key of another owner", c.Name)
		keys[string(c.Key)] = true
		w.check(len(c.URLs) > 0, "coordinator", "%s has no URL", c.Name)
		for _, u := range c.URLs {
			w.check(validCoordinatorURL(u) && !urls[u], "coordinator", "%q is not like https://writ.example.org:7440, or a duplicate", clip(u))
			urls[u] = true
		}
		words := append([]string{c.ID, c.Name, w.keyText("coordinator", SSHKey(c.Key))}, w.sorted("coordinator", c.URLs)...)
		coordinators = append(coordinators, strings.Join(words, " "))
	}
	w.lines("coordinator", coordinators)
}

func (r *Roster) writeManualApprovals(w *textWriter) {
	var datacenters []string
	for _, d := range r.Datacenters {
		if d.ManualApproval {
			datacenters = append(datacenters, string(d.ID))
		}
	}
	w.lines("manual-approval", datacenters)
}

// validCoordinatorURL reports whether s is a URL with a host and without path and query. Without TLS the host must be
// this machine.
func validCoordinatorURL(s string) bool {
	u, err := url.Parse(s)
	if err != nil || u.Hostname() == "" || strings.ToLower(s) != s || u.String() != s || s != u.Scheme+"://"+u.Host || strings.ContainsFunc(s, unicode.IsSpace) {
		return false
	}
	return u.Scheme == "https" && u.Port() != "443" || u.Scheme == "http" && reach.Loopback(u.Hostname())
}

// lines writes a repeated line for each value, sorted.
func (w *textWriter) lines(key string, values []string) {
	for _, v := range w.sorted(key, values) {
		w.line(key, v)
	}
}

func (w *textWriter) sorted(key string, values []string) []string {
	values = slices.Sorted(slices.Values(values))
	for i := 1; i < len(values); i++ {
		w.check(values[i-1] != values[i], key, "%q is a duplicate", clip(values[i]))
	}
	return values
}

func (w *textWriter) state(key string, s State) {
	w.check(s == Active || s == Removed || s == Revoked, key, "%q is not a state", s)
}

// keyText formats a key as in an authorized_keys file.
func (w *textWriter) keyText(label string, key ssh.PublicKey) string {
	if key == nil {
		w.fail(label, "the key is missing")
		return "-"
	}
	if t := key.Type(); t != ssh.KeyAlgoED25519 && t != ssh.KeyAlgoSKED25519 {
		w.fail(label, "keys of the type %s are not allowed here", t)
	}
	return keyLine(key)
}

func keyLine(key ssh.PublicKey) string {
	return key.Type() + " " + base64.StdEncoding.EncodeToString(key.Marshal())
}

// uniqueID checks that an id is unique, and that a name is unique within scope.
func (w *textWriter) uniqueID(key, id, name string, ids, names map[string]bool, scope string) {
	w.check(writ.ValidUUID(id) && !ids[id], key, "%q is not a UUID, or a duplicate", id)
	w.check(writ.ValidName(name) && !names[scope+"/"+name], key, "%q is an invalid or duplicate name", name)
	ids[id], names[scope+"/"+name] = true, true
}
