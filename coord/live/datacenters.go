package live

import (
	"context"
	"slices"
	"time"

	"writ"
	"writ/coord/api"
	"writ/ledger"
)

// Datacenters lists the datacenters of the roster with their health, which is derived from their links.
func (v *View) Datacenters(ctx context.Context) ([]api.Datacenter, error) {
	all, err := v.Ledger.Datacenters(ctx)
	if err != nil {
		return nil, err
	}
	heard, err := lastHeard(ctx, v, all)
	if err != nil {
		return nil, err
	}
	views := make([]api.Datacenter, 0, len(all))
	for _, d := range all {
		shown := api.Datacenter{
			ID: d.ID, Name: d.Name, Region: d.Region, Labels: d.Labels, Key: d.Key, Enabled: d.Enabled,
			Health: api.DatacenterHealthAway, Heard: heard[d.ID],
		}
		if s, connected := v.Links.Session(d.ID); connected {
			shown.Heard = time.Time{}
			shown.Health, shown.Version, shown.Roster, shown.Connected = api.DatacenterHealthHealthy, s.Hello.Version, s.Hello.Roster, s.Since.UTC()
			shown.Restored = s.Hello.Restored
			if shown.Fault = s.Fault(); shown.Fault != "" {
				shown.Health = api.DatacenterHealthFaulty
			}
		}
		shown.Placeable = shown.Enabled && shown.Health == api.DatacenterHealthHealthy
		switch {
		case !shown.Enabled:
			shown.Reason = "it is disabled in the roster"
		case shown.Fault != "":
			shown.Reason = shown.Fault
		case !shown.Placeable:
			shown.Reason = "its supervisor is not connected"
		}
		views = append(views, shown)
	}
	return views, nil
}

// lastHeard returns the time of the last contact with each disconnected datacenter: the end of its last session or its
// last event, whichever is later. After a restart, a coordinator has only the time of the event.
func lastHeard(
	ctx context.Context, v *View, all []ledger.Datacenter,
) (map[writ.DatacenterID]time.Time, error) {
	away := slices.ContainsFunc(all, func(d ledger.Datacenter) bool {
		_, connected := v.Links.Session(d.ID)
		return !connected
	})
	if !away {
		return nil, nil
	}
	last, err := v.Ledger.LastEvents(ctx)
	if err != nil {
		return nil, err
	}
	for _, d := range all {
		if left := v.Links.Left(d.ID); left.After(last[d.ID]) {
			last[d.ID] = left.UTC()
		}
	}
	return last, nil
}
