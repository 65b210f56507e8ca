package client

import (
	"context"
	"time"

	"writ"
	"writ/coord/api"
	"writ/identity"
)

// Reads are the projects that the roster lets the signer of the client read. They are all if it is not known who signs: a coordinator may ask nobody
// for a login.
func (c *Client) Reads(ctx context.Context, roster *identity.Roster) ([]writ.ProjectID, error) {
	by, err := c.Keys.Owner(ctx, roster)
	if err != nil {
		return []writ.ProjectID{identity.AllProjects}, nil
	}
	now := time.Now()
	login := &identity.Login{Signer: by.Name, Certificate: identity.CertificateDigest(by.Key), Until: now.Add(identity.SessionValidity)} // one of now
	return (&identity.VerifiedLogin{Login: login, Key: by.Key}).Reads(roster, now)
}

// ListedHolds asks the coordinator what is on hold in a datacenter whose supervisor does not sign that. A coordinator that lies about it gets no more
// than a statement that its datacenter refuses: it names what the person said, and a revision.
func (c *Client) ListedHolds(ctx context.Context, d *identity.Datacenter) ([]api.Hold, error) {
	list, err := api.Answer[api.HoldList](c.API.ListHolds(ctx, &api.ListHoldsParams{Datacenter: api.Given(string(d.ID))}))
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

// HoldsOf are the decisions that the API lists.
func HoldsOf(list []api.Hold) (all identity.Holds) {
	for _, h := range list {
		all = append(all, identity.Hold{
			Scope: identity.Scope{Project: h.Project, Deployment: h.Deployment, Operation: h.Operation}, ProjectName: h.ProjectName,
			Held: h.Held, Revision: h.Revision, ByOperator: h.ByOperator, Decided: h.Decided,
		})
	}
	return all
}
