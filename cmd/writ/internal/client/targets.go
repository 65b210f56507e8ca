package client

import (
	"context"
	"slices"
	"strings"

	"writ"
	"writ/identity"
	"writ/identity/header"
	"writ/identity/target"
	"writ/sal/catalog"
	"writ/scripts"
	"writ/scripts/check"
	"writ/scripts/deletion"
)

// Destruction holds the user's --destructive flag.
type Destruction struct {
	Said  bool     // the flag is set
	Named []string // targets named by the user; empty if they come from the script
}

// namesHint explains how to name targets.
const namesHint = "name the targets: --destructive=volume/web-0,volume/data-* (* at the end of a name stands for any text)"

// NameTargets sets the targets that the order's script may destroy: those named by the user, or those found in the plan
// and text of the script. The error is DESTRUCTIVE_DENIED if the script destroys data without the flag, destroys a
// target that the user did not name, or has targets that are unknown before it runs.
func (o *Order) NameTargets(ctx context.Context, roster *identity.Roster, d Destruction) error {
	if !o.Script.Report.Destructive {
		return nil
	}
	plan, err := o.Plan(ctx, roster)
	if err != nil {
		return err
	}
	targets, all := o.Destroys(&plan)
	switch {
	case !d.Said && all && len(targets) == 0: // destructive calls are not reached with these parameters
		return nil
	case !d.Said && all:
		return writ.Errorf(writ.CodeDestructiveDenied, "%s may delete or overwrite data: %s", o.Script.Path,
			strings.Join(targets, " ")).
			WithHint("confirm with --destructive%s", named(targets))
	case !d.Said:
		return writ.Errorf(writ.CodeDestructiveDenied,
			"%s may delete or overwrite data, and some targets are unknown before it runs%s",
			o.Script.Path, among(targets)).
			WithHint(namesHint)
	case len(d.Named) == 0 && !all:
		return writ.Errorf(writ.CodeDestructiveDenied, "some targets that %s may destroy are unknown before it runs%s",
			o.Script.Path, among(targets)).
			WithHint(namesHint)
	case len(d.Named) == 0:
		o.Targets = targets
		return nil
	}
	o.Targets = d.Named
	if plan.Horizon == nil && all {
		for _, destroyed := range targets {
			kind, name, _ := strings.Cut(destroyed, "/")
			if !target.Covered(d.Named, writ.ResourceKind(kind), name) {
				return writ.Errorf(writ.CodeDestructiveDenied, "%s would destroy %s, which --destructive does not name",
					o.Script.Path, destroyed).
					WithHint("name all targets: --destructive%s", named(targets))
			}
		}
	}
	return nil
}

// named returns the value of --destructive that names the targets, or "" if they are too many for a hint.
func named(targets []string) string {
	if len(targets) > 8 {
		return ""
	}
	return "=" + strings.Join(targets, ",")
}

func among(targets []string) string {
	if len(targets) == 0 {
		return ""
	}
	return "; " + strings.Join(targets, " ") + " is among it"
}

// Destroys returns the targets of the order's script by its plan, supplemented by its text if the plan is incomplete.
// `all` reports whether the list is complete.
func (o *Order) Destroys(plan *scripts.Plan) (targets []string, all bool) {
	known := true
	for _, c := range plan.Calls {
		op, ok := catalog.Lookup(c.Operation)
		if !ok || !op.Destructive {
			continue
		}
		if name, ok := c.Name.(string); ok {
			targets = append(targets, target.Of(op.Kind, name))
		} else {
			known = false
		}
	}
	all = known && plan.Horizon == nil
	if all && len(targets) <= target.Max {
		return sortedOnce(targets), true
	}
	params, err := o.Script.Report.Params.Fill(o.Params)
	if err != nil {
		return nil, false // the script cannot be planned either
	}
	texts, more := check.TargetsOf(o.Script.Bundle, params)
	if all && more {
		return sortedOnce(targets), true // too many to sign, which is reported later
	}
	if !all {
		texts = append(texts, targets...)
	}
	return withoutCovered(sortedOnce(texts)), !more
}

func sortedOnce(targets []string) []string {
	slices.Sort(targets)
	return slices.Compact(targets)
}

// withoutCovered omits names that a prefix pattern covers.
func withoutCovered(targets []string) []string {
	return slices.DeleteFunc(slices.Clone(targets), func(one string) bool {
		kind, name, _ := strings.Cut(one, "/")
		return slices.ContainsFunc(targets, func(other string) bool {
			return other != one && strings.HasSuffix(other, "*") &&
				target.Covered([]string{other}, writ.ResourceKind(kind), name)
		})
	})
}

// Batches orders resources for their deletion and divides them into batches that each fit into one header. The first
// header also lists the targets `taken`. The first batch is empty if these leave no room.
func Batches(resources []deletion.Resource, taken []string) [][]deletion.Resource {
	const room = header.MaxLine - 64 // without the key of the line
	batches, count, bytes := make([][]deletion.Resource, 1), len(taken), len(strings.Join(taken, " "))
	for _, r := range slices.Concat(deletion.ScriptStages(resources)...) {
		size := len(target.Of(r.Kind, r.Name)) + 1
		if count++; count > target.Max || bytes+size > room {
			batches, count, bytes = append(batches, nil), 1, 0
		}
		bytes += size
		batches[len(batches)-1] = append(batches[len(batches)-1], r)
	}
	return batches
}

// PruneKept makes the order's run delete the resources of its deployment that its plan does not name. It takes them
// from a preview of the plan. It returns the number of resources that do not fit into the header.
func (o *Order) PruneKept(preview writ.Preview) (more int) {
	var kept []deletion.Resource
	for _, r := range preview.Kept {
		kept = append(kept, deletion.Resource{Kind: r.Kind, Name: r.Name})
	}
	o.Prune = nil
	for _, r := range Batches(kept, o.Targets)[0] {
		o.Prune = append(o.Prune, target.Of(r.Kind, r.Name))
	}
	slices.Sort(o.Prune)
	return len(kept) + preview.KeptMore - len(o.Prune)
}

// operations returns the operations that the run may call, including the operations that prune resources.
func (o *Order) operations() []string {
	if len(o.Prune) == 0 {
		return o.Script.Report.Operations
	}
	all := slices.Clone(o.Script.Report.Operations)
	for _, resource := range o.Prune {
		kind, _, _ := strings.Cut(resource, "/")
		all = append(all, kind+".delete")
	}
	return sortedOnce(all)
}

// destructive returns the targets of the signed header: the targets of the script, and the resources to prune.
func (o *Order) destructive() []string {
	all := slices.Clone(o.Targets)
	for _, resource := range o.Prune {
		kind, name, _ := strings.Cut(resource, "/")
		if !target.Covered(o.Targets, writ.ResourceKind(kind), name) {
			all = append(all, resource)
		}
	}
	return all
}
