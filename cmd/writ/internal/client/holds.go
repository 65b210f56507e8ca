package client

import (
	"context"
	"time"

	"writ"
	"writ/coord/api"
	"writ/identity"
)

// Readable returns the projects that the client's signer may read according to the roster. It returns all projects if
// the signer is unknown, because a coordinator may allow access without login.
func (c Holds) Readable(ctx context.Context, roster *identity.Roster) ([]writ.ProjectID, error) {
	by, err := c.client.Keys.Owner(ctx, roster)
	if err != nil {
		return []writ.ProjectID{identity.AllProjects}, nil
	}
	now := time.Now()
	// Rights belong to a login, so this function evaluates a login that begins now.
	login := &identity.Login{
		Signer: by.Name, Certificate: identity.CertificateDigest(by.Key), Until: now.Add(identity.SessionValidity),
	}
	return (&identity.VerifiedLogin{Login: login, Key: by.Key}).Reads(roster, now)
}

// Listed queries the coordinator for the holds of a datacenter whose supervisor does not sign its holds. The answer is
// unsigned, but cannot make the user sign a wrong decision: the statement has the scope that the user entered, and the
// datacenter rejects a wrong revision.
func (c Holds) Listed(ctx context.Context, d *identity.Datacenter) ([]api.Hold, error) {
	list, err := api.Answer[api.HoldList](c.client.API.ListHolds(ctx,
		&api.ListHoldsParams{Datacenter: api.Given(string(d.ID))}))
	if err != nil {
		return nil, err
	}
	for _, of := range list.Items {
		switch {
		case of.Datacenter != d.ID:
		case of.Error != nil:
			return nil, of.Error
		default:
			return of.Holds, nil
		}
	}
	return nil, nil
}

// HoldsOf converts the holds of the API.
func HoldsOf(list []api.Hold) (all identity.Holds) {
	for _, h := range list {
		all = append(all, identity.Hold{
			Scope:       identity.Scope{Project: h.Project, Deployment: h.Deployment, Operation: h.Operation},
			ProjectName: h.ProjectName, Held: h.Held, Revision: h.Revision, ByOperator: h.ByOperator, Decided: h.Decided,
		})
	}
	return all
}
