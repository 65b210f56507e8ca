package remedy

import (
	"strings"
	"testing"
	"time"

	"writ"
	"writ/coord/api"
	"writ/ledger"
	"writ/sal/catalog"
)

func TestTroubleOfResourceHasItsCommand(t *testing.T) {
	t.Parallel()
	since := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	stands := func(kind writ.ResourceKind, s writ.Standing, drift ...string) api.ListedResource {
		return api.ListedResource{Resource: writ.Resource{
			ResourceID: writ.ResourceID{Kind: kind, Name: "web"}, Standing: s, Drift: drift,
		}}
	}
	unheard := stands(writ.KindContainer, writ.Standing{State: "running", Health: catalog.HealthUnhealthy})
	unheard.Unheard = &api.Unheard{State: api.UnheardStateSilent, Since: since}
	away := stands(writ.KindVolume, writ.Standing{State: "ready"})
	away.Unheard = &api.Unheard{State: api.UnheardStateAway, Since: since}
	forgotten := stands(writ.KindVolume, writ.Standing{State: "ready"})
	forgotten.Unheard = &api.Unheard{State: api.UnheardStateForgotten}
	hostile := stands(writ.KindContainer, writ.Standing{Health: catalog.HealthUnhealthy})
	hostile.Name = "$(reboot)"
	const logs = "writ logs container/web --project shop --dc dc1"
	for name, tt := range map[string]struct {
		resource api.ListedResource
		want     string // "problem: command" of each, separated by "; "
	}{
		"Well":     {stands(writ.KindContainer, writ.Standing{State: "running", Health: catalog.HealthHealthy}), ""},
		"Starting": {stands(writ.KindContainer, writ.Standing{State: "running", Health: catalog.HealthStarting}), ""},
		// A program that ended as its restart policy allows is a finished job.
		"Stopped":   {stands(writ.KindContainer, writ.Standing{State: "stopped", Exit: &writ.Exit{}}), ""},
		"Unhealthy": {stands(writ.KindContainer, writ.Standing{State: "running", Health: catalog.HealthUnhealthy}), "is unhealthy: " + logs},
		"Failed": {stands(writ.KindContainer, writ.Standing{State: "stopped"}, "its program ended with exit code 3."),
			"differs from its request: its program ended with exit code 3: " + logs},
		"Gone": {stands(writ.KindVolume, writ.Standing{State: catalog.Gone}), "is gone from its node: "},
		"Drift": {stands(writ.KindVolume, writ.Standing{State: "ready"}, "it has 2 GiB", "it is read-only"),
			"differs from its request: it has 2 GiB: ; differs from its request: it is read-only: "},
		"Unclear": {stands(writ.KindVolume, writ.Standing{State: catalog.Unclear}),
			"has an unknown state: its node cannot inspect it: writ resource show volume/web --project shop --dc dc1"},
		"SilentNode": {unheard, "is on a node that is silent: writ node list; is unhealthy: " + logs},
		"Forgotten":  {forgotten, "is on a node that its datacenter does not know: writ node list"},
		"Away":       {away, "is in a datacenter that is away: writ dc list"},
		"Hostile":    {hostile, "is unhealthy: "},
	} {
		var got []string
		for _, trouble := range Resource(tt.resource, "shop", "dc1") {
			got = append(got, trouble.What+": "+trouble.Next.Line)
			if is := strings.Contains(trouble.What, " silent") || strings.Contains(trouble.What, " away"); is != trouble.Since.Equal(since) {
				t.Errorf("%s: %q since %s", name, trouble.What, trouble.Since)
			}
		}
		unheard := tt.resource.Unheard != nil && len(got) == 1
		if ledger.Troubled(tt.resource.Resource) != (len(got) > 0 && !unheard) {
			t.Errorf("%s: the ledger does not agree with %q", name, got)
		}
		if text := strings.Join(got, "; "); text != tt.want {
			t.Errorf("%s: %q, want %q", name, text, tt.want)
		}
	}
	if all := Resource(unheard, "Shop!", "dc 1"); all[1].Next.Line != "writ logs container/web" {
		t.Errorf("with invalid names: %+v", all[1])
	}
}
