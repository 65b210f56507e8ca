// Package deletion writes scripts that delete given resources. A resource is deleted before the resources that it uses.
// The package checks neither owners nor rights: the caller selects the resources.
package deletion

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"writ"
	"writ/sal/catalog"
)

// Resource is a resource of the script's project.
type Resource struct {
	Kind writ.ResourceKind
	Name string
}

// Stages orders resources for their deletion. No resource needs a resource of the same or of an earlier stage, so the
// deletions of a stage may run at the same time. Resources of a stage are sorted by kind and name.
//
// The order must not change, because recorded runs with pruned resources depend on it.
func Stages(resources []Resource) [][]Resource {
	return stages(resources, ranks(catalog.Operations(), nil))
}

// ScriptStages is the order of the deletions in Script. In addition to the order of Stages, programs are deleted before
// the databases that they may use.
func ScriptStages(resources []Resource) [][]Resource {
	return stages(resources, ranks(catalog.Operations(), usersByValue))
}

func stages(resources []Resource, ranks map[writ.ResourceKind]int) [][]Resource {
	sorted := slices.SortedFunc(slices.Values(resources), func(a, b Resource) int {
		return cmp.Or(cmp.Compare(ranks[a.Kind], ranks[b.Kind]), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name))
	})
	var all [][]Resource
	for i, r := range sorted {
		if i == 0 || ranks[r.Kind] != ranks[sorted[i-1].Kind] {
			all = append(all, nil)
		}
		all[len(all)-1] = append(all[len(all)-1], r)
	}
	return all
}

// usersByValue lists the kinds that may use a resource although their arguments do not name it: programs use databases
// by their addresses.
var usersByValue = map[writ.ResourceKind][]writ.ResourceKind{
	writ.KindHeroDB: {writ.KindContainer, writ.KindMachine},
}

// ranks gives each kind a rank above the ranks of all kinds whose resources may need it. byValue adds users to the
// users that the operations name.
func ranks(
	operations []*catalog.Operation, byValue map[writ.ResourceKind][]writ.ResourceKind,
) map[writ.ResourceKind]int {
	users := make(map[writ.ResourceKind][]writ.ResourceKind) // by the kind that they need
	for kind, all := range byValue {
		users[kind] = slices.Clone(all)
	}
	for _, op := range operations {
		if op.Effect != catalog.Make {
			continue
		}
		for _, held := range op.HeldKinds() {
			users[held] = append(users[held], op.Kind)
		}
	}
	ranks := make(map[writ.ResourceKind]int)
	for range users { // a chain of users is at most len(users) long
		for kind, all := range users {
			for _, user := range all {
				ranks[kind] = max(ranks[kind], ranks[user]+1)
			}
		}
	}
	return ranks
}

// Script returns a script that deletes resources stage by stage. It ends at the first stage with a failure, so that no
// data of a program is deleted while the program may still run. The lines of comment come first.
func Script(comment string, resources []Resource) []byte {
	var b strings.Builder
	for line := range strings.Lines(comment) {
		fmt.Fprintf(&b, "// %s\n", strings.TrimSuffix(line, "\n"))
	}
	var kinds []writ.ResourceKind
	for _, r := range resources {
		kinds = append(kinds, r.Kind)
	}
	slices.Sort(kinds)
	for _, kind := range slices.Compact(kinds) {
		fmt.Fprintf(&b, "%s := import(%q)\n", kind, kind)
	}
	b.WriteString("\nwait := func(deleted) {\n\tfor one in deleted {\n\t\tone.uid // waits for its deletion\n\t}\n}\n")
	for _, stage := range ScriptStages(resources) {
		b.WriteString("\nwait([\n")
		for i, r := range stage {
			comma := ","
			if i == len(stage)-1 {
				comma = ""
			}
			fmt.Fprintf(&b, "\t%s.delete(%q)%s\n", r.Kind, r.Name, comma)
		}
		b.WriteString("])\n")
	}
	return []byte(b.String())
}
