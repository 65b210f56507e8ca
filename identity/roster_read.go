package identity

import (
	"crypto/ed25519"
	"encoding/base64"
	"strings"

	"golang.org/x/crypto/ssh"

	"writ"
	"writ/identity/header"
	"writ/identity/sshsig"
)

// ParseRoster is the inverse of Text. It rejects every text that Text would not write. It verifies no signatures. The
// error is PAYLOAD_MALFORMED or TOO_LARGE.
func ParseRoster(text []byte) (*Roster, error) {
	o := new(Roster)
	r := &rosterReader{header.NewReader(text), o}
	format := readFormat(r.Reader, "writ-roster", rosterFormatV1, rosterFormatV4)
	o.Cluster = writ.ClusterID(r.One("cluster"))
	o.Version = r.Number("version")
	o.Created = r.Time("created")
	o.Expires = r.Time("expires")
	o.Previous = r.DigestOrDash("previous")
	if format == rosterFormatV4 {
		o.History = r.Digest("history")
	}
	o.Root = readKey(r.Reader, r.Fields(r.One("root"), 2))
	o.Threshold = r.Number("threshold")
	o.Operators = r.Many("operator")
	for _, role := range r.Many("user-verification") {
		o.UserVerification = append(o.UserVerification, Role(role))
	}
	r.principals()
	r.authorities()
	for _, line := range r.Many("tenant") {
		f := r.Fields(line, 2)
		o.Tenants = append(o.Tenants, Tenant{ID: writ.TenantID(f[0]), Name: f[1]})
	}
	for _, line := range r.Many("project") {
		f := r.Fields(line, 3)
		o.Projects = append(o.Projects,
			Project{ID: writ.ProjectID(f[0]), Name: f[1], Tenant: writ.TenantID(header.FromDash(f[2]))})
	}
	r.bindings()
	r.datacenters()
	r.coordinators()
	r.manualApprovals()
	r.authorityLimits()
	r.silences()
	r.End()
	if r.Err() == nil && format != o.Format() {
		r.Fail("the format v2 is for rosters with coordinators or manual approvals, v3 for those with limits of authorities or times of silent nodes, " +
			"v4 for those with a history")
	}
	if err := r.Canonical(text, o.Text); err != nil {
		return nil, err
	}
	o.byKey, o.digest = o.owners(), writ.DigestOf(text)
	return o, nil
}

// rosterReader reads the lines of a roster.
type rosterReader struct {
	*header.Reader
	roster *Roster
}

func (r *rosterReader) principals() {
	at := map[string]int{}
	for _, line := range r.Many("principal") {
		f := r.Fields(line, 3)
		at[f[0]] = len(r.roster.Principals)
		r.roster.Principals = append(r.roster.Principals,
			Principal{Name: f[0], Kind: PrincipalKind(f[1]), State: State(f[2])})
	}
	for _, line := range r.Many("key") {
		f := r.Fields(line, 4)
		key := PrincipalKey{State: State(f[1]), Key: readKey(r.Reader, f[2:])}
		i, known := at[f[0]]
		if !known {
			r.Fail("unknown principal %q", header.Clip(f[0]))
			return
		}
		r.roster.Principals[i].Keys = append(r.roster.Principals[i].Keys, key)
	}
}

func (r *rosterReader) bindings() {
	for _, line := range r.Many("binding") {
		f := r.Fields(line, 5)
		r.roster.Bindings = append(r.roster.Bindings, Binding{
			Principal: f[0], Role: Role(f[1]), Project: writ.ProjectID(f[2]), Destructive: f[3] == "yes",
			Expires: r.ParseTimeOrDash(f[4]),
		})
	}
}

func (r *rosterReader) datacenters() {
	for _, line := range r.Many("datacenter") {
		f := r.Fields(line, 6)
		d := Datacenter{Enabled: f[3] == "enabled", SupervisorKey: readMachineKey(r.Reader, f[4:6])}
		d.ID, d.Name, d.Region = writ.DatacenterID(f[0]), f[1], f[2]
		for _, label := range f[6:] {
			k, v, _ := strings.Cut(label, "=")
			if d.Labels == nil {
				d.Labels = map[string]string{}
			}
			d.Labels[k] = v
		}
		r.roster.Datacenters = append(r.roster.Datacenters, d)
	}
}

func (r *rosterReader) coordinators() {
	for _, line := range r.Many("coordinator") {
		f := r.Fields(line, 5)
		r.roster.Coordinators = append(r.roster.Coordinators,
			Coordinator{ID: f[0], Name: f[1], Key: readMachineKey(r.Reader, f[2:4]), URLs: f[4:]})
	}
}

func (r *rosterReader) manualApprovals() {
	for _, id := range r.Many("manual-approval") {
		d := r.roster.Datacenter(writ.DatacenterID(id))
		if d == nil {
			r.Fail("unknown datacenter %q for manual-approval", header.Clip(id))
			return
		}
		d.ManualApproval = true
	}
}

// readMachineKey reads the key of a supervisor or coordinator. It returns nil for an invalid key.
func readMachineKey(r *header.Reader, words []string) ed25519.PublicKey {
	public, ok := readKey(r, words).(ssh.CryptoPublicKey) // a certificate is not a CryptoPublicKey
	if !ok {
		return nil
	}
	key, _ := public.CryptoPublicKey().(ed25519.PublicKey)
	return key
}

// readKey reads a key type and a base64 blob.
func readKey(r *header.Reader, words []string) ssh.PublicKey {
	if r.Err() != nil {
		return nil
	}
	blob, err := base64.StdEncoding.Strict().DecodeString(words[1])
	if err != nil {
		r.Fail("the key cannot be read")
		return nil
	}
	key, err := sshsig.ParseKeyBlob(blob)
	if err != nil {
		r.Fail("the key cannot be used: %v", err)
		return nil
	}
	return key
}
