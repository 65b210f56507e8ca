package remedy

import (
	"strings"
	"time"

	"writ"
	"writ/coord/api"
	"writ/ledger"
)

// Trouble is a problem of a resource that a person should know, as the end of a sentence about the resource.
type Trouble struct {
	What  string    // "is unhealthy"
	Since time.Time // zero if unknown
	// Next is the command to type next. It is zero if a new submission of the script helps: the command for that needs
	// the signed text.
	Next Command
}

// stateStopped is the state of a resource whose program has ended.
const stateStopped = "stopped"

// Resource returns the problems of a resource, the most important one first. If the state of the resource is not
// current (Unheard is set), the other problems are as of the last report. project and datacenter are the names of its
// project and datacenter, for the commands; an invalid name is omitted.
func Resource(r api.ListedResource, project, datacenter string) (all []Trouble) {
	if u := r.Unheard; u != nil {
		all = append(all, unheard(*u))
	}
	logs := aboutResource(Logs, r, project, datacenter)
	show := aboutResource(ShowResource, r, project, datacenter)
	if r.Kind != writ.KindContainer && r.Kind != writ.KindMachine {
		logs = show
	}
	switch {
	case r.State == ledger.StateGone:
		all = append(all, Trouble{What: "is gone from its node"})
	case r.State == ledger.StateUnclear:
		all = append(all, Trouble{What: "has an unknown state: its node cannot inspect it", Next: show})
	case r.Health == ledger.Unhealthy:
		all = append(all, Trouble{What: "is unhealthy", Next: logs})
	}
	for _, text := range r.Drift {
		t := Trouble{What: "differs from its request: " + strings.TrimSuffix(text, ".")}
		if r.State == stateStopped {
			t.Next = logs
		}
		all = append(all, t)
	}
	return all
}

// unheard describes a resource whose state is not current.
func unheard(u api.Unheard) Trouble {
	if u.State == api.UnheardStateAway {
		return Trouble{What: "is in a datacenter that is away", Since: u.Since, Next: List(ListDatacenters)}
	}
	if u.State == api.UnheardStateForgotten {
		return Trouble{What: "is on a node that its datacenter does not know", Since: u.Since, Next: List(ListNodes)}
	}
	return Trouble{What: "is on a node that is " + string(u.State), Since: u.Since, Next: List(ListNodes)}
}

// aboutResource returns a command about a resource. It is zero if a name is not valid.
func aboutResource(verb Verb, r api.ListedResource, project, datacenter string) Command {
	if !writ.ValidName(r.Name) || !writ.ValidName(string(r.Kind)) {
		return Command{}
	}
	c := Command{Verb: verb, Line: "writ " + string(verb) + " " + string(r.Kind) + "/" + r.Name}
	if writ.ValidName(project) {
		c.Line += " --project " + project
	}
	if writ.ValidName(datacenter) {
		c.Line += " --dc " + datacenter
	}
	return c
}
