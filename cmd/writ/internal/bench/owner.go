package bench

import (
	"crypto/ed25519"
	"crypto/rand"
	"fmt"
	"slices"
	"time"

	"writ"
	"writ/cmd/writ/internal/client"
	"writ/cmd/writ/internal/config"
	"writ/cmd/writ/internal/daemon"
	"writ/cmd/writ/internal/daemon/supervisord"
	"writ/identity"
	"writ/identity/pki"
	"writ/identity/sshsig"
)

// owner signs the roster of a cluster, its tokens and its submissions. Its keys exist only in this process.
type owner struct {
	person  *client.Person
	project identity.Project
	issuer  *pki.Issuer // of the coordinator's certificates; nil without TLS
}

// found creates a cluster with a datacenter for each data directory in `supervisors`, in this order. It writes the
// rosters into these directories and into `others`.
func (o *owner) found(tls bool, supervisors []string, others ...string) error {
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return err
	}
	key := &client.Key{Signer: sshsig.NewSigner(private)}
	var coordinators []identity.Coordinator
	if tls {
		if coordinators, err = o.certify(); err != nil {
			return err
		}
	}
	roster, first, err := client.Found(key, "bench", time.Now(), coordinators...)
	if err != nil {
		return err
	}
	if tls {
		o.issuer.Name.Cluster = roster.Cluster
	}
	o.person = &client.Person{Key: key, Name: "bench", Roster: roster}
	second, err := client.Successor(roster, o.person, time.Now(), func(next *identity.Roster) error {
		for i, dir := range supervisors {
			key, err := supervisord.Key(dir)
			if err != nil {
				return err
			}
			datacenter := writ.Datacenter{Name: fmt.Sprintf("dc%d", i+1), Region: "here"}
			if err := client.AddDatacenter(next, datacenter, daemon.PublicKey(key)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, dir := range slices.Concat(supervisors, others) {
		if o.person.Roster, err = config.RostersIn(dir, roster.Cluster).Add(first, second); err != nil {
			return err
		}
	}
	o.project = o.person.Roster.Projects[0]
	return nil
}

// certify creates the issuer of the coordinator's certificates and returns the coordinator's roster entry.
func (o *owner) certify() ([]identity.Coordinator, error) {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	id := writ.NewUUID()
	o.issuer = &pki.Issuer{Key: private, Name: pki.Name{Role: pki.Coordinator, ID: id}}
	return []identity.Coordinator{{ID: id, Name: "bench", Key: public, URLs: []string{"https://127.0.0.1"}}}, nil
}

// grant returns a token that admits a number of nodes to a datacenter, and the signed statement that creates it.
func (o *owner) grant(datacenter writ.DatacenterID, uses int) (token string, signed []byte, err error) {
	made, err := identity.NewToken(o.person.Roster.Cluster).For(datacenter, o.person.Roster)
	if err != nil {
		return "", nil, err
	}
	statement := identity.Statement{Datacenter: datacenter}
	expires := time.Now().Add(identity.TokenValidity).UTC().Truncate(time.Second)
	identity.TokenGrant{ID: made.ID, Key: made.Key(), Role: identity.TokenRoleNode, Expires: expires, Uses: uses}.Statement(&statement)
	signed, err = o.person.SignStatement(statement)
	return made.String(), signed, err
}

// sign returns the signed submission of an order for a datacenter.
func (o *owner) sign(datacenter writ.DatacenterID, order client.Order) ([]byte, error) {
	order.Datacenter, order.Project = datacenter, o.project
	return order.Sign(o.person.Roster, o.person)
}
