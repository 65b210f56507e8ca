// Package planview shows plans: the calls of a script, their known effects, and the errors that a run would have. It
// must not import commands, and it requests no plan itself.
package planview

import (
	"writ"
	"writ/sal/catalog"
	"writ/scripts"
)

// View is a plan with its known effects, in the form of -o json.
type View struct {
	Script     string `json:"script"`
	Project    string `json:"project"`
	Datacenter string `json:"datacenter,omitempty"` // name
	scripts.Plan
	// Foreseen is the plan that results if calls without an effect return their current results. It may therefore extend
	// further than Plan. Preview describes the calls of Foreseen.
	Foreseen *scripts.Plan `json:"foreseen,omitempty"`
	Preview  *writ.Preview `json:"preview,omitempty"` // nil if no datacenter was asked
	Unasked  string        `json:"unasked,omitempty"` // why no datacenter was asked
	// Targets lists the known targets that the script destroys. MoreTargets is true if a run may destroy further targets.
	Targets     []string `json:"targets,omitempty"`
	MoreTargets bool     `json:"more_targets,omitempty"`
	// Prune lists the resources that the run deletes when all calls have succeeded, unless the script names them.
	// PruneMore is the number of further resources, which do not fit into the signed header.
	Prune     []string `json:"prune,omitempty"`
	PruneMore int      `json:"prune_more,omitempty"`
	// Summary counts the calls by action. Without a preview, its only key is "planned".
	Summary map[string]int `json:"summary"`
	// Changes is false only if the plan is certain to have no effect.
	Changes bool   `json:"changes"`
	Next    string `json:"next,omitempty"` // command that runs exactly this plan
	// Denied is the reason why the user may not sign the order. It is nil if the user may, or if that is unknown.
	Denied *writ.Error `json:"denied,omitempty"`

	Bundle scripts.Bundle `json:"-"`
}

// seen returns the plan that extends furthest.
func (p *View) seen() *scripts.Plan {
	if p.Foreseen != nil {
		return p.Foreseen
	}
	return &p.Plan
}

// Conclude counts the actions of the calls.
func (p *View) Conclude() {
	p.Summary = make(map[string]int)
	p.Changes = p.seen().Horizon != nil
	for i := range p.seen().Calls {
		action := p.action(i)
		p.Changes = p.Changes || action.Changes() || action == writ.ActionRefused
		if p.Preview == nil {
			p.Summary["planned"]++
		} else {
			p.Summary[string(action)]++
		}
	}
}

// action returns the action of a call. Without a preview, it is known only if it does not depend on the state of a
// datacenter.
func (p *View) action(i int) writ.Action {
	if p.Preview != nil {
		return p.Preview.Calls[i].Action
	}
	op, _ := catalog.Lookup(p.seen().Calls[i].Operation)
	switch {
	case op.Effect == catalog.Find, op.Effect == catalog.Look && op.Repeat == catalog.Safe:
		return writ.ActionRead
	case op.Effect == catalog.Remove:
		return writ.ActionDelete
	}
	return writ.ActionUnknown
}
