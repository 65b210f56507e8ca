package main

import (
	"context"
	"strings"
	"testing"

	"writ/coord/api"
	"writ/internal/testenv"
)

// TestTwoDatacenters has scripts go where they are addressed, and a script for one that is down wait for it.
func TestTwoDatacenters(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it starts many processes")
	}
	s := newSite(t)
	s.datacenter("east", testenv.Redis(t).URL, 2, "0")
	s.datacenter("west", testenv.Redis(t).URL, 2, "0")
	s.script("where.tengo", `
herodb := import("herodb")
run := import("run")
herodb.create("here", {memory_mib: 64})
run.output({datacenter: run.datacenter})
`)
	both := [][]string{{"east-n1", "east-n2"}, {"west-n1", "west-n2"}}
	for i, name := range []string{"east", "west"} {
		out := s.writ("submit", "where.tengo", "--dc", name)
		if !strings.Contains(out, name) {
			t.Errorf("addressed to %s, it says %q", name, out)
		}
		if here, there := len(s.effects(both[i]...)), len(s.effects(both[1-i]...)); here != 1 || there != i {
			t.Errorf("after a script for %s: %d effects there, %d elsewhere", name, here, there)
		}
	}

	out, said, code := s.try("submit", "where.tengo", "--dc", "any", "--select", "name=west")
	if code != 0 || !strings.Contains(out, "west") || !strings.Contains(said, "west (here): healthy, 0 open calls: chosen") ||
		!strings.Contains(said, `not east: name is "east", not "west"`) {
		t.Errorf("--dc any: exit %d\n%s%s", code, said, out)
	}
	if _, said, code := s.try("submit", "where.tengo"); code != 2 || !strings.Contains(said, "there are 2 datacenters: east, west") {
		t.Errorf("without --dc: exit %d\n%s", code, said)
	}

	s.kill("west")
	s.until("west is away", func(ctx context.Context) bool {
		list, err := api.Answer[api.DatacenterList](s.client.API.ListDatacenters(ctx))
		for _, d := range list.Items {
			if d.Name == "west" {
				return err == nil && !d.Placeable
			}
		}
		return false
	})
	id := s.submit("where.tengo", "--dc", "west")
	if out := s.writ("run", "show", string(id)); !strings.Contains(out, "waiting") || !strings.Contains(out, "west") {
		t.Errorf("a run for a datacenter that is away:\n%s", out)
	}
	if _, said, code := s.try("submit", "where.tengo", "--dc", "any", "--select", "name=west"); code != 8 || !strings.Contains(said, "not west") {
		t.Errorf("--dc any while none will do: exit %d\n%s", code, said)
	}
	if out := s.writ("submit", "where.tengo", "--dc", "any"); !strings.Contains(out, "east") {
		t.Errorf("--dc any while west is away: %s", out)
	}
	s.restart("west")
	s.succeeded(s.follow(id, 0, func() {}))
	if out := s.writ("run", "watch", string(id)); !strings.Contains(out, "west") {
		t.Errorf("after its return: %s", out)
	}
}
