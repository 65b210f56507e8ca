package page

import (
	"cmp"
	"fmt"
	"time"

	"writ"
	"writ/coord/api"
	. "writ/coord/dashboard/markup"
	. "writ/coord/dashboard/widget"
	"writ/identity"
	"writ/internal/hidden"
)

// CommandList lists commands that the reader may run. An empty list renders an empty node.
func CommandList(all []Command) Node {
	if len(all) == 0 {
		return nil
	}
	return Dl(Class("commands"), Each(all, func(c Command) Node { return Fact(c.Does, Copyable(c.Line)) }))
}

// ChooseProject returns a filter by project.
func ChooseProject(of []identity.Project, chosen writ.ProjectID) Node {
	return Choice("Project", "project", OptionOf("", "all projects", false), Each(of, func(p identity.Project) Node {
		return OptionOf(string(p.ID), p.Name, p.ID == chosen)
	}))
}

// ChooseDatacenter returns a filter by datacenter.
func ChooseDatacenter(of []api.Datacenter, chosen writ.DatacenterID) Node {
	return Choice("Datacenter", "datacenter", OptionOf("", "all datacenters", false),
		Each(of, func(dc api.Datacenter) Node {
			return OptionOf(string(dc.ID), dc.Name, dc.ID == chosen)
		}))
}

// ProjectText renders the name of a project, or a part of its id.
func ProjectText(name string, id writ.ProjectID) Node { return Text(cmp.Or(name, Short(id))) }

// Decided describes the last decision, for example "cordon by alice at 2026-11-29T10:00:00Z: the disk is failing". It
// returns "" for an empty list.
func Decided(all []writ.Decision) string {
	if len(all) == 0 {
		return ""
	}
	last := all[len(all)-1]
	text := fmt.Sprintf("%s by %s at %s", last.Decision, last.Signer, last.Time.UTC().Format(time.RFC3339))
	if last.Reason != "" {
		text += ": " + last.Reason
	}
	return hidden.Escape(text)
}

// Command is a shell command with its effect.
type Command struct{ Does, Line string }

// NoNode is shown below an empty list of nodes.
func NoNode() Node {
	return P(Class("empty"), Text("No node has joined yet. "), Code(Text("writ token create")),
		Text(" creates a token to join with."))
}
