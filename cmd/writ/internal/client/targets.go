package client

import (
	"context"
	"slices"
	"strings"

	"writ"
	"writ/identity"
	"writ/sal/catalog"
	"writ/scripts"
	"writ/scripts/check"
)

// Destruction is what somebody says on the command line of what a script may destroy.
type Destruction struct {
	Said  bool     // it is meant
	Named []string // what may be destroyed, where the person and not the script says it
}

// namesHint says how to name what a script may destroy.
const namesHint = "name what it may destroy: --destructive=volume/web-0,volume/data-* (a name ends in * if more may follow)"

// NameTargets sets what the order's script may destroy: what a person has named, or what the plan and the text of the script tell. It is
// DESTRUCTIVE_DENIED if the script destroys and nobody said so, or if what it destroys is not among what is named, or is not known before it runs.
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
	case !d.Said && all && len(targets) == 0: // what would destroy is not reached with these parameters
		return nil
	case !d.Said && all:
		return writ.Errorf(writ.CodeDestructiveDenied, "%s may delete or overwrite data: %s", o.Script.Path, strings.Join(targets, " ")).
			WithHint("say --destructive if that is meant")
	case !d.Said:
		return writ.Errorf(writ.CodeDestructiveDenied, "%s may delete or overwrite data, and not all of it can be told before it runs%s",
			o.Script.Path, among(targets)).
			WithHint(namesHint)
	case len(d.Named) == 0 && !all:
		return writ.Errorf(writ.CodeDestructiveDenied, "not all that %s may destroy can be told before it runs%s", o.Script.Path, among(targets)).
			WithHint(namesHint)
	case len(d.Named) == 0:
		o.Targets = targets
		return nil
	}
	o.Targets = d.Named
	if plan.Horizon == nil && all {
		for _, target := range targets {
			kind, name, _ := strings.Cut(target, "/")
			if !identity.Covered(d.Named, writ.ResourceKind(kind), name) {
				return writ.Errorf(writ.CodeDestructiveDenied, "%s would destroy %s, which --destructive does not name", o.Script.Path, target).
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

// Destroys returns what the script of an order destroys by its plan, or else what its text tells besides, and whether that is all.
func (o *Order) Destroys(plan *scripts.Plan) (targets []string, all bool) {
	known := true
	for _, c := range plan.Calls {
		op, ok := catalog.Lookup(c.Operation)
		if !ok || !op.Destructive {
			continue
		}
		if name, ok := c.Name.(string); ok {
			targets = append(targets, identity.TargetOf(op.Kind, name))
		} else {
			known = false
		}
	}
	all = known && plan.Horizon == nil
	if all && len(targets) <= identity.MaxTargets {
		return sortedOnce(targets), true
	}
	params, err := o.Script.Report.Params.Fill(o.Params)
	if err != nil {
		return nil, false // it cannot be planned either
	}
	texts, more := check.TargetsOf(o.Script.Bundle, params)
	if all && more {
		return sortedOnce(targets), true // too many to be signed, which is said then
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

// withoutCovered leaves out names for which a prefix stands.
func withoutCovered(targets []string) []string {
	return slices.DeleteFunc(slices.Clone(targets), func(target string) bool {
		kind, name, _ := strings.Cut(target, "/")
		return slices.ContainsFunc(targets, func(other string) bool {
			return other != target && strings.HasSuffix(other, "*") && identity.Covered([]string{other}, writ.ResourceKind(kind), name)
		})
	})
}
