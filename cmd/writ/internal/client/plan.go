package client

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"writ"
	"writ/coord/api"
	"writ/identity"
	"writ/internal/clip"
	"writ/sal/catalog"
	"writ/scripts"
	"writ/scripts/interpreter"
)

// Plan plans the script of an order. roster may be nil; the name of the datacenter is then unknown.
func (o Order) Plan(ctx context.Context, roster *identity.Roster) (scripts.Plan, error) {
	return o.plan(ctx, roster, nil)
}

// plan works like Plan, with known results for some calls: given maps the number of a call to its result.
func (o Order) plan(ctx context.Context, roster *identity.Roster, given map[int]map[string]any) (scripts.Plan, error) {
	params, err := o.Script.Report.Params.Fill(o.Params)
	if err != nil {
		return scripts.Plan{}, err
	}
	in := scripts.Inputs{
		Params: params, Project: o.Project.Name, Datacenter: o.Datacenter, Allow: o.operations(),
		MaxCalls: o.MaxCalls, Secrets: o.Secrets, Images: o.Images, Prune: o.Prune,
	}
	if roster != nil {
		if d := roster.Datacenter(o.Datacenter); d != nil {
			in.DatacenterName = d.Name
		}
	}
	last := o.Script.planned
	if last != nil && given == nil && reflect.DeepEqual(last.inputs, in) {
		return last.plan, nil
	}
	plan, err := interpreter.Foresee(ctx, o.Script.Bundle, in, given)
	if err != nil {
		return plan, fmt.Errorf("plan the script: %w", err)
	}
	if last != nil && given == nil {
		*last = lastPlan{inputs: in, plan: plan}
	}
	return plan, nil
}

// MinPlanDigits is the minimum length of an abbreviated plan digest, in hex digits.
const MinPlanDigits = 12

// Bind binds the order to a plan that the user has seen. named is its digest or a prefix of it. The error is
// PLAN_MISMATCH if the script now yields another plan.
func (o *Order) Bind(ctx context.Context, roster *identity.Roster, named string) error {
	digits := strings.ToLower(strings.TrimSpace(named))
	if len(digits) < MinPlanDigits || len(digits) > 2*len(writ.Digest{}) ||
		strings.Trim(digits, "0123456789abcdef") != "" {
		return writ.Errorf(writ.CodeUsage, "--plan %q is not the digest of a plan", named).
			WithHint("it is the 64 hex digits that `writ plan` shows, or at least the first %d of them", MinPlanDigits)
	}
	plan, err := o.Plan(ctx, roster)
	if err != nil {
		return err
	}
	if !strings.HasPrefix(plan.Digest.String(), digits) {
		seen := fmt.Sprintf("%d calls", len(plan.Calls))
		if len(plan.Calls) == 1 {
			seen = "1 call"
		}
		if plan.Horizon != nil {
			seen += " as far as can be seen"
		}
		return writ.Errorf(writ.CodePlanMismatch, "the script plans as %s now, with %s, and not as %s", plan.Digest, seen,
			digits).
			WithHint("the digest covers the calls and their arguments: the script, a module, a parameter, a version of a secret or a value that the script reads has changed; `writ plan` shows the current plan")
	}
	o.PlanDigest = plan.Digest
	return nil
}

// Revision returns the newest revision of the order's deployment, or 0 before its first run. A false answer can at
// worst cause the script to be rejected, because the supervisor compares the signed revision.
func (c Orders) Revision(ctx context.Context, o Order) (int, error) {
	preview, err := c.Preview(ctx, o)
	return preview.Revision, err
}

// Preview returns the preview of a run without calls: the newest revision of the order's deployment and, as Kept, all
// its resources.
func (c Orders) Preview(ctx context.Context, o Order) (writ.Preview, error) {
	return c.preview(ctx, o, &scripts.Plan{}, true)
}

// maxProposal limits a preview request, in bytes. A coordinator forwards the request to the datacenter in one frame.
const maxProposal = 1<<20 - 8<<10

// maxRounds limits the number of preview requests for one script.
const maxRounds = 10

// Foresee asks the order's datacenter for the effects of a plan. If a call would find its resource unchanged, its
// result is known. Foresee then plans again with this result, as long as that reveals more calls. It returns the
// extended plan and its preview. newest is as for preview.
func (c Orders) Foresee(
	ctx context.Context, o Order, roster *identity.Roster, plan scripts.Plan, newest bool,
) (scripts.Plan, writ.Preview, error) {
	given := make(map[int]map[string]any)
	for round := 1; ; round++ {
		preview, err := c.preview(ctx, o, &plan, newest)
		if err != nil || round == maxRounds {
			return plan, preview, err
		}
		known := len(given)
		for _, call := range preview.Calls {
			var values api.Values
			if given[call.Seq] == nil && len(call.Values) > 0 && json.Unmarshal(call.Values, &values) == nil {
				given[call.Seq] = values
			}
		}
		if len(given) == known {
			return plan, preview, nil
		}
		further, err := o.plan(ctx, roster, given)
		if err != nil {
			return plan, preview, err
		}
		alike := reflect.DeepEqual(further.Calls, plan.Calls)
		plan = further
		if alike {
			return plan, preview, nil
		}
	}
}

// answers reports whether a preview covers exactly the calls 1 to `calls`, in order.
func answers(p writ.Preview, calls int) bool {
	for i, c := range p.Calls {
		if c.Seq != i+1 {
			return false
		}
	}
	return len(p.Calls) == calls
}

// checkKept rejects a preview whose kept resources no script can name. The coordinator could otherwise choose the text of
// the scripts that delete them.
func checkKept(p writ.Preview) error {
	for _, r := range p.Kept {
		if _, known := catalog.Lookup(string(r.Kind) + ".delete"); !known || !writ.ValidName(r.Name) {
			return writ.Errorf(writ.CodeUnverified, "the coordinator lists %q as a resource of the deployment, which is invalid",
				clip.Text(string(r.Kind)+"/"+r.Name, 100)).
				WithHint("use another coordinator with --server, and inform the operator of this one; no script was signed")
		}
	}
	if p.KeptMore < 0 {
		return writ.Errorf(writ.CodeUnverified, "the coordinator lists %d further resources of the deployment", p.KeptMore).
			WithHint("use another coordinator with --server, and inform the operator of this one; no script was signed")
	}
	return nil
}

// preview asks the order's datacenter for the effects of a plan. If newest is set, the current revision of the order's
// deployment is used instead of its base revision.
func (c Orders) preview(ctx context.Context, o Order, plan *scripts.Plan, newest bool) (writ.Preview, error) {
	targets := o.destructive()
	p := writ.Proposal{Project: o.Project.ID, Deployment: o.Deployment.Name, Destructive: len(targets) > 0,
		Targets: targets, Uses: o.Uses, Calls: plan.Proposed(), Waits: plan.Waits}
	if p.Deployment != "" && !newest {
		p.Base = &o.Deployment.Base
	}
	body, err := json.Marshal(p)
	if err != nil {
		return writ.Preview{}, fmt.Errorf("encode the plan: %w", err)
	}
	if len(body) > maxProposal {
		return writ.Preview{}, writ.Errorf(writ.CodeTooLarge, "the plan has %d bytes; a datacenter is asked about at most %d",
			len(body), maxProposal)
	}
	preview, err := api.Answer[writ.Preview](c.client.API.PreviewPlan(ctx, string(o.Datacenter), body))
	if err == nil && !answers(preview, len(plan.Calls)) {
		err = writ.Errorf(writ.CodeExecError, "the datacenter answered for calls outside the plan")
	}
	if err == nil {
		err = checkKept(preview)
	}
	return preview, err
}
