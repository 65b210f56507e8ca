package client

import (
	"context"
	"slices"
	"strings"

	"writ"
	"writ/identity"
	"writ/identity/target"
	"writ/sal/catalog"
	"writ/scripts"
	"writ/scripts/check"
)

// Destruction holds the user's --destructive flag.
type Destruction struct {
	Said  bool     // the flag is set
	Named []string // targets named by the user; empty if they come from the script
}

// namesHint explains how to name targets.
const namesHint = "name the targets: --destructive=volume/web-0,volume/data-* (a name ends in * if more may follow)"

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
			WithHint("confirm with --destructive")
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
					WithHint(namesHint)
			}
		}
	}
	return nil
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
