package client

import (
	"bytes"
	"context"

	"writ"
	"writ/coord/api"
	"writ/identity"
	"writ/identity/chain"
)

// noClusterHint explains how to get a context.
const noClusterHint = "`writ dev` starts a cluster on this machine; for an existing cluster, set WRIT_CONFIG to its client.yaml, or use `writ context import`"

// Newest returns the newest roster. It requests, verifies and stores the rosters that the client lacks. If the
// coordinator has fewer rosters than the client, the client submits them: a coordinator that withholds a roster would
// keep revoked keys valid. The error is ROSTER_TOO_OLD if the coordinator does not accept them.
func (c Roster) Newest(ctx context.Context) (*identity.Roster, error) {
	if c.client.Context.Cluster == "" {
		return nil, writ.Errorf(writ.CodeUsage, "no cluster is configured").WithHint(noClusterHint)
	}
	known, err := c.client.Rosters.Latest()
	if err != nil {
		return nil, err
	}
	after := 0
	if known != nil {
		after = known.Version
	}
	ctx, stop := context.WithTimeout(ctx, dialTime)
	defer stop()
	links, err := chain.CollectPages(after, func(after int) ([][]byte, error) { return c.page(ctx, known, after) })
	if err != nil {
		return nil, err
	}
	return c.client.Rosters.Add(links...)
}

// page requests a page of rosters. If the coordinator lacks rosters up to the roster `known`, page submits them first.
func (c Roster) page(ctx context.Context, known *identity.Roster, after int) ([][]byte, error) {
	ask := func() (api.Rosters, error) {
		return api.Answer[api.Rosters](c.client.API.GetRoster(ctx, &api.GetRosterParams{After: &after}))
	}
	answer, err := ask()
	if err != nil || answer.Version >= after || known == nil {
		return answer.Signed, err
	}
	before := answer.Version
	if err = c.handIn(ctx, before); err == nil {
		answer, err = ask()
	}
	if err == nil && answer.Version >= after {
		return answer.Signed, nil
	}
	e := writ.Errorf(writ.CodeRosterTooOld,
		"the coordinator has version %d of the roster and did not accept version %d, "+
			"which this machine has already received",
		before, known.Version).WithHint("it was restored from an old backup, or hides a version; inform its operator")
	e.Err = err
	return nil, e
}

// handIn submits the stored rosters after a version to the coordinator.
func (c Roster) handIn(ctx context.Context, after int) error {
	links, err := c.client.Rosters.Links()
	if err != nil {
		return err
	}
	for _, link := range links {
		version, _, err := chain.Versions(link)
		if err != nil {
			return err
		}
		if version <= after {
			continue
		}
		if _, err := api.Answer[api.RosterVersion](c.client.API.AddRosterWithBody(ctx, api.SignedType,
			bytes.NewReader(link))); err != nil {
			return err
		}
	}
	return nil
}
