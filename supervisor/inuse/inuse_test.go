package inuse

import (
	"fmt"
	"testing"

	"writ"
	"writ/supervisor/journal"
)

func TestIndexFollowsChangesOfUsers(t *testing.T) {
	machine := func(name string, disks ...any) *journal.Resource {
		return resource(writ.KindMachine, name, "machine.create", map[string]any{"disks": disks})
	}
	box := func(name, volume string) *journal.Resource {
		mount := map[string]any{"volume": map[string]any{"kind": "volume", "name": volume, "uid": "old"}, "path": "/data"}
		return resource(writ.KindContainer, name, "container.create", map[string]any{"volumes": []any{mount, mount}})
	}
	index := NewIndex([]*journal.Resource{
		machine("b", "data"), box("z", "data"), machine("a", "data", "data", "boot"),
		resource(writ.KindMachine, "odd", "machine.unknown", map[string]any{"disks": []any{"data"}}),
	})
	want := func(when, volume, users string) {
		t.Helper()
		got := ""
		for _, u := range index.Users(writ.KindVolume, volume) {
			got += u.String() + ";"
		}
		if got != users {
			t.Errorf("%s: %s is used by %q, want %q", when, volume, got, users)
		}
	}
	want("at first", "data", "container z;machine a;machine b;")
	want("at first", "boot", "machine a;")
	want("at first", "other", "")
	if machines := index.UsersOfKind(writ.KindVolume, "data", writ.KindMachine); len(machines) != 2 || machines[0].Name != "a" {
		t.Errorf("machines: %v", machines)
	}
	if none := index.UsersOfKind(writ.KindVolume, "boot", writ.KindContainer); len(none) != 0 {
		t.Errorf("containers: %v", none)
	}
	if z := index.Users(writ.KindVolume, "data")[0]; z.Uses("new") || !z.Uses("old") {
		t.Error("a container does not distinguish volumes with the same name")
	}
	if a := index.Users(writ.KindVolume, "data")[1]; !a.Uses("new") {
		t.Error("a machine with a disk by name does not use each volume of that name")
	}

	detached := machine("a", "boot", "data")
	detached.Values = map[string]any{"disks": []any{"boot"}}
	index.Set(detached.ResourceID, detached)
	want("after a detach", "data", "container z;machine b;")
	want("after a detach", "boot", "machine a;")

	index.Set(detached.ResourceID, nil)
	index.Set(machine("b").ResourceID, machine("b", "other"))
	want("after changes", "boot", "")
	want("after changes", "data", "container z;")
	want("after changes", "other", "machine b;")
}

// resource returns a resource of the project p.
func resource(kind writ.ResourceKind, name, operation string, args map[string]any) *journal.Resource {
	r := &journal.Resource{Operation: operation, Args: args}
	r.ResourceID = writ.ResourceID{Project: "p", Kind: kind, Name: name}
	r.UID = writ.UID(fmt.Sprint("uid-", name))
	return r
}
