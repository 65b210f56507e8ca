package operation

import (
	"fmt"
	"maps"
	"slices"

	"writ"
	"writ/sal/catalog"
)

// impossibleNodes returns the options of a call that no node can match. The call would wait forever.
func impossibleNodes(options map[string]any) (problems []catalog.Problem) {
	add := func(at catalog.Path, format string, args ...any) {
		problems = append(problems,
			catalog.Problem{Path: at, Reason: catalog.WrongValue, Message: fmt.Sprintf(format, args...)})
	}
	if node, ok := options["node"].(string); ok && !writ.ValidName(node) && !writ.ValidUUID(node) {
		add(catalog.Path{"node"}, "node must be the name or id of a node such as \"n1\", not %q", node)
	}
	labels, _ := options["labels"].(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		value, known := labels[name].(string)
		if at := (catalog.Path{"labels", name}); !writ.ValidName(name) {
			add(at, "%s must be a valid label name, such as disk or rack-2: lower-case letters, digits and hyphens", at)
		} else if known && !writ.ValidLabel(name, value) {
			add(at, "%s must be a valid label value, such as ssd or rack/a1: letters, digits and . _ / -, not %q", at, value)
		}
	}
	return problems
}
