package placement

import (
	"fmt"
	"slices"
	"strings"

	"writ"
)

// Limits of a reason. Every waiting call stores a reason.
const (
	maxCauses = 4
	// MaxNamed limits the names that a reason lists for each cause.
	MaxNamed = 3
)

// NoCapacity returns the error of a call without a suitable node, with a hint that fits the causes. It is PORT_CLOSED
// or PORT_TAKEN if all nodes lack only the ports, and DEVICE_FORBIDDEN if all nodes lack only the devices.
func NoCapacity(r Request, d Decision) *writ.Error {
	for _, lacking := range []func([]writ.NodeVerdict, string) *writ.Error{portError, deviceError} {
		if err := lacking(d.Unsuitable, "no node is suitable: "+d.Why.Candidates()); err != nil {
			return err
		}
	}
	err := writ.Errorf(writ.CodeNoCapacity, "no node is suitable: %s", d.Why.Candidates())
	for _, a := range d.Unsuitable {
		switch a.Code {
		case writ.VerdictNoDriver, writ.VerdictNoEngine:
			return err.WithHint("`writ node show NODE` lists the drivers of a node; " +
				"`writ doctor` on the node shows why others are missing. " +
				"After a repair, restart the runner of the node")
		case writ.VerdictNoDevice:
			return err.WithHint("%s", deviceHint)
		case writ.VerdictNoLabel:
			return err.WithHint("`writ node list -o wide` shows the labels of nodes; `writ node label NODE %s` gives a node this one", a.Label)
		}
	}
	switch {
	case r.Node != "" && len(d.Unsuitable) == 0:
		return err.WithHint("`writ node list` shows the nodes; correct the option node of the call, or omit it")
	case r.Bound:
		return err.WithHint("`writ node list` shows the free capacity of the node, which has resources that the call " +
			"needs; request less, or delete unused resources there")
	case r.Node != "":
		return err.WithHint("`writ node list` shows the free capacity of the node; request less, or omit the option node")
	case len(d.Unsuitable) > 0 &&
		!slices.ContainsFunc(d.Unsuitable, func(a writ.NodeVerdict) bool { return a.Code != writ.VerdictTooSmall }):
		return err.WithHint("request less, or add a larger node; `writ node list -o wide` shows the sizes")
	default:
		return err.WithHint("`writ node list` shows the free capacity of nodes; " +
			"request less, delete unused resources, or add a node")
	}
}

// reasonOf returns the reason why all of these nodes are unsuitable. It groups the nodes by cause. If there are too
// many causes, it keeps the causes with the most nodes.
func reasonOf(unsuitable []writ.NodeVerdict) writ.Reason {
	names := make(map[string][]string)
	var causes []writ.NodeVerdict // the first node of each cause
	for _, a := range unsuitable {
		if names[a.Reason] == nil {
			causes = append(causes, a)
		}
		names[a.Reason] = append(names[a.Reason], a.Name)
	}
	why := writ.Reason{Code: writ.ReasonNoNode}
	if len(causes) > maxCauses {
		slices.SortStableFunc(causes, func(a, b writ.NodeVerdict) int { return len(names[b.Reason]) - len(names[a.Reason]) })
		for _, cause := range causes[maxCauses:] {
			why.More += len(names[cause.Reason])
		}
		causes = causes[:maxCauses]
	}
	for _, cause := range causes {
		first, more := firstNames(names[cause.Reason])
		why.Nodes = append(why.Nodes, writ.NodesReason{Names: first, More: more, Code: cause.Code, Text: cause.Reason})
	}
	return why
}

// namesOf joins the names of nodes, sorted. If there are too many names, it counts the rest.
func namesOf(nodes []Candidate) string {
	var names []string
	for _, c := range nodes {
		names = append(names, c.Name)
	}
	slices.Sort(names)
	first, more := firstNames(names)
	text := strings.Join(first, ", ")
	if more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// firstNames returns the first names of a list and the number of further names. It returns all names if it would
// otherwise omit only one name.
func firstNames(names []string) ([]string, int) {
	if n := len(names) - MaxNamed; n > 1 {
		return names[:MaxNamed], n
	}
	return names, 0
}
