package catalog

import (
	"slices"
	"testing"

	"writ"
)

// dataOf lists the reviewed effect of each operation on existing data: see docs/decisions. An operation that is missing
// here is an error, so that its effect gets reviewed.
var dataOf = map[Data][]string{
	DataReads: {
		"image.get", "volume.get", "network.get", "machine.get", "machine.console", "container.get", "container.logs", "herodb.get",
		"node.facts", "node.drivers", "node.ping", "run.now",
	},
	DataAdds: {
		"image.fetch", "volume.create", "volume.resize", "volume.snapshot", "volume.clone", "volume.copy", "volume.send", "volume.receive",
		"network.create", "machine.snapshot", "herodb.backup",
	},
	DataUses: {
		"network.allow", "machine.create", "machine.start", "machine.stop", "machine.pause", "machine.resume", "machine.resize",
		"machine.attach", "machine.detach", "container.create", "container.run", "container.start", "container.stop", "container.exec",
		"herodb.create", "herodb.rotate_secret",
	},
	DataDestroys: {
		"image.delete", "volume.restore", "volume.delete_snapshot", "volume.discard", "volume.delete", "network.delete", "machine.restore",
		"machine.delete_snapshot", "machine.delete", "container.delete", "herodb.restore", "herodb.delete_backup", "herodb.delete",
	},
}

func TestEveryOperationDeclaresItsEffectOnData(t *testing.T) {
	declared := 0
	for _, o := range Operations() {
		if !slices.Contains(dataOf[o.Data], o.Name()) {
			t.Errorf("%s says that it %q data: is that so? Say it in dataOf, too", o.Name(), o.Data)
		}
		declared++
		if losing := o.Data == DataUses || o.Data == DataDestroys; losing != (o.Risk != "") {
			t.Errorf("%s %s data, and says of what can get lost: %q", o.Name(), o.Data, o.Risk)
		}
		if o.Destructive != (o.Data == DataDestroys) || o.Signed() != (o.Data != DataReads) {
			t.Errorf("%s %s data: destructive %v, signed %v", o.Name(), o.Data, o.Destructive, o.Signed())
		}
	}
	for _, names := range dataOf {
		declared -= len(names)
	}
	if declared != 0 {
		t.Errorf("the table has %d operations more than the catalogue", -declared)
	}
}

// The declared effect must not be weaker than the declaration of the operation implies.
func TestDeclaredDataMatchesTheOperation(t *testing.T) {
	order := []Data{DataReads, DataAdds, DataUses, DataDestroys}
	for _, o := range Operations() {
		least := DataAdds
		switch {
		case o.Effect == Find, o.Effect == Look:
			least = DataReads
		case o.Effect == Remove:
			least = DataDestroys
		case o.Kind == writ.KindMachine || o.Kind == writ.KindContainer: // programs that run with volumes
			if o.Verb != "snapshot" {
				least = DataUses
			}
		}
		if slices.Index(order, o.Data) < slices.Index(order, least) {
			t.Errorf("%s says that it %s data; its form tells that it %s them", o.Name(), o.Data, least)
		}
	}
}
