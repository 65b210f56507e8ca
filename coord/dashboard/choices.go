package dashboard

import (
	"cmp"
	"fmt"
	"time"

	"writ"
	"writ/coord/api"
	. "writ/coord/dashboard/markup"
	"writ/identity"
	"writ/internal/hidden"
)

// commandList lists commands that the reader may run. An empty list renders an empty text.
func commandList(all []command) Node {
	if len(all) == 0 {
		return nil
	}
	return Dl(Class("commands"), Each(all, func(c command) Node { return fact(c.Does, copyable(c.Line)) }))
}

func chooseProject(of []identity.Project, chosen writ.ProjectID) Node {
	return choice("Project", "project", option("", "all projects", false), Each(of, func(p identity.Project) Node {
		return option(string(p.ID), p.Name, p.ID == chosen)
	}))
}

func chooseDatacenter(of []api.Datacenter, chosen writ.DatacenterID) Node {
	return choice("Datacenter", "datacenter", option("", "all datacenters", false), Each(of, func(dc api.Datacenter) Node {
		return option(string(dc.ID), dc.Name, dc.ID == chosen)
	}))
}

// projectText renders the name of a project, or the beginning of its id.
func projectText(name string, id writ.ProjectID) Node { return Text(cmp.Or(name, short(id))) }

// decided describes the last decision, for example "cordon by alice: the disk is failing"; "" if there is none.
func decided(all []writ.Decision) string {
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

// command is a shell command with its effect.
type command struct{ Does, Line string }

// noNode is shown below an empty list of nodes.
func noNode() Node {
	return P(Class("empty"), Text("No node has joined yet. "), Code(Text("writ token create")),
		Text(" creates a token to join with."))
}
