package bench

import (
	"crypto/ed25519"
	"crypto/rand"
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
	person     *client.Person
	datacenter *identity.Datacenter
	project    identity.Project
	issuer     *pki.Issuer // of the coordinator's certificates; nil without TLS
}

// found creates a cluster with one datacenter, whose supervisor has the data directory dir.
func (o *owner) found(dir string, tls bool) error {
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
		key, err := supervisord.Key(dir)
		if err != nil {
			return err
		}
		return client.AddDatacenter(next, writ.Datacenter{Name: "bench", Region: "here"}, daemon.PublicKey(key))
	})
	if err != nil {
		return err
	}
	if o.person.Roster, err = config.RostersIn(dir, roster.Cluster).Add(first, second); err != nil {
		return err
	}
	o.datacenter = &o.person.Roster.Datacenters[0]
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

// grant returns a token that admits a number of nodes, and the signed statement that creates it.
func (o *owner) grant(uses int) (token string, signed []byte, err error) {
	made, err := identity.NewToken(o.person.Roster.Cluster).For(o.datacenter.ID, o.person.Roster)
	if err != nil {
		return "", nil, err
	}
	statement := identity.Statement{Datacenter: o.datacenter.ID}
	expires := time.Now().Add(identity.TokenValidity).UTC().Truncate(time.Second)
	identity.TokenGrant{ID: made.ID, Key: made.Key(), Role: identity.TokenRoleNode, Expires: expires, Uses: uses}.Statement(&statement)
	signed, err = o.person.SignStatement(statement)
	return made.String(), signed, err
}

// sign returns the signed submission of an order.
func (o *owner) sign(order client.Order) ([]byte, error) {
	order.Datacenter, order.Project = o.datacenter.ID, o.project
	return order.Sign(o.person.Roster, o.person)
}
