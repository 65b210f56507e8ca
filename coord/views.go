package coord

import (
	"golang.org/x/crypto/ssh"

	"writ"
	"writ/coord/api"
	"writ/identity"
	"writ/identity/sshsig"
	"writ/ledger"
)

// setWhy sets the reason of a run and its sentence.
func setWhy(v *api.Run, why writ.Reason) { v.Why, v.Reason = why, why.String() }

func registrationView(r ledger.Registration) api.Registration {
	v := api.Registration{
		Token: r.Token, Name: r.Name, Key: r.Key, Nonce: r.Nonce, Proof: r.Proof, URL: r.URL, Received: r.Received,
	}
	if key := sshsig.SSHKey(r.Key); key != nil {
		v.Fingerprint = ssh.FingerprintSHA256(key)
	}
	return v
}

func regionView(r ledger.Region) api.Region {
	return api.Region{Name: r.Name, Datacenters: r.Datacenters}
}

func projectView(p identity.Project) api.Project {
	return api.Project{ID: p.ID, Name: p.Name, Tenant: p.Tenant}
}
