package simulated

import (
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"testing"

	"writ"
	"writ/sal/saltest"
)

// The test fills the five free addresses of a /29 with machines and containers that are created concurrently.
func TestMembersGetDistinctIPv4Addresses(t *testing.T) {
	dir := t.TempDir()
	network := open(t, Config{Module: "network", Dir: dir})
	machines, containers := open(t, Config{Module: "machine", Dir: dir}), open(t, Config{Module: "container", Dir: dir})
	must(t, network, "network.create", "front", map[string]any{"ipv4": "10.1.0.8/29"})
	must(t, network, "network.create", "back", nil)
	networks := []any{saltest.RefTo(writ.KindNetwork, "back"), saltest.RefTo(writ.KindNetwork, "front")}

	got := make([]map[string]any, 5)
	var all sync.WaitGroup
	for i := range got {
		all.Go(func() {
			d, operation, spec := machines, "machine.create", machineSpec
			if i%2 == 1 {
				d, operation, spec = containers, "container.create", containerSpec
			}
			o, err := do(t, t.Context(), d, operation, "web-"+strconv.Itoa(i), values(spec, "networks", networks))
			if err != nil {
				t.Errorf("web-%d: %v", i, err)
			}
			got[i] = o.Values
		})
	}
	all.Wait()
	addresses := make(map[string]bool)
	for i, values := range got {
		text, _ := values["ipv4"].(string)
		list, _ := values["ipv4_addresses"].([]any)
		if addr, err := netip.ParseAddr(text); err != nil || !netip.MustParsePrefix("10.1.0.8/29").Contains(addr) || len(list) != 1 || list[0] != text {
			t.Errorf("web-%d has %v and %v", i, text, list)
		}
		addresses[text] = true
	}
	want := []string{"10.1.0.10", "10.1.0.11", "10.1.0.12", "10.1.0.13", "10.1.0.14"}
	if all := slices.Sorted(maps.Keys(addresses)); !slices.Equal(all, want) {
		t.Errorf("together they have %v", all)
	}

	spec := values(machineSpec, "networks", networks)
	if _, err := do(t, t.Context(), machines, "machine.create", "last", spec); writ.CodeOf(err) != writ.CodeQuotaExceeded {
		t.Errorf("one more: %v", err)
	}
	must(t, containers, "container.delete", "web-1", nil)
	if o := must(t, machines, "machine.create", "last", spec); o.Values["ipv4"] != got[1]["ipv4"] {
		t.Errorf("of the deleted container's address %v it has %v", got[1]["ipv4"], o.Values["ipv4"])
	}
}
