// Package deletion writes scripts that delete given resources, users before the resources that they use. It knows
// neither owners nor rights: the caller selects the resources.
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

// Stages orders resources for their deletion. No resource needs one of the same stage or of an earlier one, so the
// deletions of a stage may run at the same time. Resources of a stage are sorted by kind and name.
func Stages(resources []Resource) [][]Resource {
	ranks := ranks(catalog.Operations())
	sorted := slices.SortedFunc(slices.Values(resources), func(a, b Resource) int {
		return cmp.Or(cmp.Compare(ranks[a.Kind], ranks[b.Kind]), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name))
	})
	var stages [][]Resource
	for i, r := range sorted {
		if i == 0 || ranks[r.Kind] != ranks[sorted[i-1].Kind] {
			stages = append(stages, nil)
		}
		stages[len(stages)-1] = append(stages[len(stages)-1], r)
	}
	return stages
}

// ranks gives each kind a rank above the ranks of all kinds whose resources may need it.
func ranks(operations []*catalog.Operation) map[writ.ResourceKind]int {
	users := make(map[writ.ResourceKind][]writ.ResourceKind) // by the kind that they need
	for _, op := range operations {
		if op.Effect != catalog.Make {
			continue
		}
		for _, held := range op.HeldKinds() {
			users[held] = append(users[held], op.Kind)
		}
	}
	ranks := make(map[writ.ResourceKind]int)
	for range users { // no chain of users is longer than their number
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
	for _, stage := range Stages(resources) {
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
