package identity

import (
	"maps"
	"slices"
	"strings"

	"writ"
	"writ/identity/header"
)

// DecisionLabel is the decision that changes the labels of a node.
const DecisionLabel = "label"

// LabelChange is a change to the labels of a node. A statement contains the change instead of all labels, so that
// concurrent changes of different labels do not conflict.
type LabelChange struct {
	Set    map[string]string // new values by label name
	Remove []string          // label names
}

// Statement sets the subject, decision and parameters of a statement with the change.
func (c LabelChange) Statement(s *Statement, node writ.NodeID) {
	s.Subject, s.Decision = "node/"+string(node), DecisionLabel
	set, remove := []any{}, []any{}
	for _, name := range slices.Sorted(maps.Keys(c.Set)) {
		set = append(set, name+"="+c.Set[name])
	}
	for _, name := range slices.Sorted(slices.Values(c.Remove)) {
		remove = append(remove, name)
	}
	s.Params = map[string]any{"set": set, "remove": remove}
}

// ParseLabelChange parses the change in a statement about the labels of a node.
func ParseLabelChange(s *Statement) (LabelChange, error) {
	set, ok1 := stringsIn(s.Params["set"])
	remove, ok2 := stringsIn(s.Params["remove"])
	if !ok1 || !ok2 || len(s.Params) != 2 {
		return LabelChange{}, header.Malformed("labels need the parameters \"set\" and \"remove\", two lists of strings")
	}
	if max(len(set), len(remove)) > writ.MaxLabels || len(set)+len(remove) == 0 {
		return LabelChange{}, header.Malformed("from 1 to %d labels are set or removed at a time", writ.MaxLabels)
	}
	c := LabelChange{Set: make(map[string]string), Remove: remove}
	for _, label := range set {
		name, value, ok := strings.Cut(label, "=")
		if !ok || !writ.ValidLabel(name, value) {
			return LabelChange{}, header.Malformed("%q is not a valid label", label)
		}
		c.Set[name] = value
	}
	for _, name := range remove {
		if _, both := c.Set[name]; both || !writ.ValidName(name) {
			return LabelChange{}, header.Malformed("%q cannot be removed: it is set, or not the name of a label", name)
		}
	}
	if len(c.Set) < len(set) || len(slices.Compact(slices.Sorted(slices.Values(remove)))) < len(remove) {
		return LabelChange{}, header.Malformed("a label is named twice")
	}
	return c, nil
}

// Apply returns the changed labels. It does not modify `before`.
func (c LabelChange) Apply(before map[string]string) map[string]string {
	after := make(map[string]string, len(before)+len(c.Set))
	maps.Copy(after, before)
	maps.Copy(after, c.Set)
	for _, name := range c.Remove {
		delete(after, name)
	}
	return after
}

// stringsIn converts a parameter to a list of strings.
func stringsIn(param any) (list []string, ok bool) {
	values, ok := param.([]any)
	for _, v := range values {
		text, is := v.(string)
		if ok = ok && is; !ok {
			return nil, false
		}
		list = append(list, text)
	}
	return list, ok
}
