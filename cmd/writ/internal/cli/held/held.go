// Package held asks supervisors which work is on hold, and describes their answers.
package held

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"writ"
	"writ/cmd/writ/internal/cli"
	"writ/cmd/writ/internal/client"
	"writ/coord/api"
	"writ/identity"
)

// HeldText formats the signer, time and reason of a hold.
func HeldText(d writ.Decision, what string) string {
	text := fmt.Sprintf("%s has held %s since %s", cmp.Or(d.Signer, "the supervisor itself"), what, cli.Clock(d.Time))
	if d.Reason != "" {
		text += ": " + d.Reason
	}
	return text
}

// SignedHolds requests the signed holds of each datacenter, or only of the datacenter with the given name or id.
func SignedHolds(
	ctx context.Context, c *client.Client, roster *identity.Roster, datacenter string,
) (list api.HoldList, err error) {
	projects, err := c.Holds.Readable(ctx, roster)
	if err != nil {
		return list, err
	}
	list.Items, err = cli.AskEach(roster, datacenter, func(d *identity.Datacenter) api.DatacenterHolds {
		holds, err := c.Holds.List(ctx, roster, d, projects)
		if err != nil {
			holds = []api.Hold{}
		}
		return api.DatacenterHolds{Datacenter: d.ID, Name: d.Name, Holds: holds, Error: writ.AsError(err)}
	})
	return list, err
}

// KeepProject removes all holds of the list whose project differs.
func KeepProject(list *api.HoldList, project writ.ProjectID) {
	for i := range list.Items {
		list.Items[i].Holds = slices.DeleteFunc(list.Items[i].Holds,
			func(h api.Hold) bool { return h.Project != project })
	}
}

// HeldIn describes the holds of each datacenter in a sentence, for lists of datacenters. The sentence also reports
// holds that cannot be verified. It does not report a disconnected datacenter, because the list shows that state.
// Without a roster HeldIn returns nil.
func HeldIn(ctx context.Context, c *client.Client, roster *identity.Roster) map[writ.DatacenterID]string {
	if roster == nil {
		return nil
	}
	list, err := SignedHolds(ctx, c, roster, "")
	if err != nil {
		return nil // the list reports missing permissions
	}
	held := make(map[writ.DatacenterID]string)
	for _, d := range list.Items {
		all := client.HoldsOf(d.Holds)
		parts := 0
		for _, h := range all {
			if h.Held {
				parts++
			}
		}
		whole := all.Of(identity.Scope{})
		switch {
		case d.Error != nil && d.Error.Code != writ.CodeDatacenterAway:
			held[d.Datacenter] = "the holds are unknown: " + d.Error.Message
		case whole != nil && whole.Held:
			held[d.Datacenter] = "is on hold: " + HeldText(whole.Last(), "it")
		case parts > 0:
			held[d.Datacenter] = cli.Count(parts, "part") + " of its work on hold"
		}
	}
	return held
}

// HeldRow is a row of the list of holds.
type HeldRow struct {
	Datacenter, What, State, Release string
	Last                             writ.Decision
	Revision                         int64
	ByOperator                       bool
}

// HeldRows returns the current holds of a datacenter and the current exemptions from a hold.
func HeldRows(d api.DatacenterHolds) (rows []HeldRow) {
	for _, h := range client.HoldsOf(d.Holds) {
		exempt := client.HoldsOf(d.Holds).Exempts(h.Scope)
		if !h.Held && !exempt {
			continue
		}
		row := HeldRow{
			Datacenter: d.Name, What: strings.TrimPrefix(h.Text(), "the "), State: "held", Last: h.Last(), Revision: h.Revision,
			ByOperator: h.ByOperator,
		}
		row.Last.Signer = cmp.Or(row.Last.Signer, "supervisor")
		if exempt {
			row.State = "released"
		} else {
			row.Release = h.Release(d.Name, h.ProjectName)
		}
		rows = append(rows, row)
	}
	return rows
}
