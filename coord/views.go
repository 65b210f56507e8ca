package coord

import (
	"golang.org/x/crypto/ssh"

	"writ"
	"writ/coord/api"
	"writ/identity"
	"writ/ledger"
)

// runView converts a run. A waiting run gets a reason.
func (c *Coordinator) runView(r ledger.Run) api.Run {
	v := api.RunOf(r.Run, api.RunState(r.State))
	v.Created = r.Created
	if r.State == ledger.StateWaiting {
		setWhy(&v, c.whyWaiting(r))
	}
	return v
}

// setWhy sets the reason of a run and its sentence.
func setWhy(v *api.Run, why writ.Reason) { v.Why, v.Reason = why, why.String() }

// whyWaiting returns the reason why a submission waits for its delivery.
func (c *Coordinator) whyWaiting(r ledger.Run) writ.Reason {
	why := writ.Reason{Code: writ.ReasonDelivering, Datacenter: c.rosters.DatacenterName(r.Datacenter)}
	if _, connected := c.links.Session(r.Datacenter); !connected {
		why.Code = writ.ReasonConnect
	} else if trouble := c.delivery.Trouble(r.Payload); trouble != nil {
		why.Code, why.Text = writ.ReasonRefusing, trouble.Message
	}
	return why
}

func registrationView(r ledger.Registration) api.Registration {
	v := api.Registration{
		Token: r.Token, Name: r.Name, Key: r.Key, Nonce: r.Nonce, Proof: r.Proof, URL: r.URL, Received: r.Received,
	}
	if key := identity.SSHKey(r.Key); key != nil {
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
