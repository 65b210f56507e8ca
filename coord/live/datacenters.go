package live

import (
	"context"

	"writ/coord/api"
)

// Datacenters lists the datacenters of the roster with their health, which is derived from their links.
func (v *View) Datacenters(ctx context.Context) ([]api.Datacenter, error) {
	all, err := v.Ledger.Datacenters(ctx)
	if err != nil {
		return nil, err
	}
	views := make([]api.Datacenter, 0, len(all))
	for _, d := range all {
		shown := api.Datacenter{
			ID: d.ID, Name: d.Name, Region: d.Region, Labels: d.Labels, Key: d.Key, Enabled: d.Enabled,
			Health: api.DatacenterHealthAway,
		}
		if s, connected := v.Links.Session(d.ID); connected {
			shown.Health, shown.Version, shown.Roster, shown.Connected = api.DatacenterHealthHealthy, s.Hello.Version, s.Hello.Roster, s.Since.UTC()
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
