// Package preview predicts the effects of a run in the present state.
package preview

import (
	"context"
	"encoding/json"
	"time"

	"writ"
	"writ/identity"
	"writ/internal/fair"
	"writ/supervisor/hold"
	"writ/supervisor/journal"
	"writ/supervisor/submission"
	"writ/supervisor/workflow"
)

const (
	// maxPreviews limits the concurrent previews of all projects; each project has at most one. Any person may request
	// previews, which must leave CPU time for runs.
	maxPreviews = 2
	// previewWithin limits one preview. The largest possible plans take a tenth of that.
	previewWithin = 10 * time.Second
	// maxPreview limits the JSON of a preview, so that it fits into a frame of the link.
	maxPreview = 900 << 10
	// maxKept limits the listed resources of a deployment that a plan does not name.
	maxKept = 500
)

// Previewer predicts the effects of proposals. Create it with New.
type Previewer struct {
	Config
	slots fair.Slots // running previews, by project
}

// Config holds the dependencies of a Previewer. All fields are required.
type Config struct {
	Journal *journal.Journal
	Roster  func() *identity.Roster // roster in force
	Holds   *hold.Decisions
	View    *workflow.View
}

// New returns a previewer.
func New(config Config) *Previewer {
	return &Previewer{Config: config, slots: fair.Slots{Size: maxPreviews, Most: 1}}
}

// Preview predicts the effects of a run of the proposal. It does not change the journal. Other runs may change the
// state before the run starts.
func (r *Previewer) Preview(ctx context.Context, proposal writ.Proposal) (writ.Preview, error) {
	if r.Roster().Project(proposal.Project) == nil {
		return writ.Preview{}, writ.Errorf(writ.CodeProjectUnknown, "the roster has no project %q",
			workflow.Short(string(proposal.Project)))
	}
	plan, err := workflow.ReadProposal(&proposal)
	if err != nil {
		return writ.Preview{}, err
	}
	ctx, stop := context.WithTimeoutCause(ctx, previewWithin, writ.Errorf(writ.CodeTimeout, "the preview took too long"))
	defer stop()
	done, err := r.slots.Enter(ctx, string(proposal.Project))
	if err != nil {
		return writ.Preview{}, err
	}
	defer done()
	preview, err := journal.Query(ctx, r.Journal, func(tx *journal.Tx) (writ.Preview, error) {
		return r.predict(ctx, tx, &proposal, plan)
	})
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return fitted(preview), err
}

// predict returns the preview of a plan.
func (r *Previewer) predict(
	ctx context.Context, tx *journal.Tx, p *writ.Proposal, plan []workflow.ProposedCall,
) (preview writ.Preview, err error) {
	if preview.Revision, err = tx.Revision(p.Project, p.Deployment); err != nil {
		return preview, err
	}
	if p.Base != nil && *p.Base != preview.Revision {
		preview.Refused = submission.OtherRevision(p.Deployment, preview.Revision, *p.Base)
	}
	run := workflow.ProposalRun(p, plan, r.Roster().Project(p.Project).Name, preview.Revision)
	earlier, err := tx.EarlierRun(run)
	if err != nil {
		return preview, err
	}
	if earlier != "" {
		preview.Reason = "waits for run " + string(earlier) + " of the same deployment"
	}
	if h := r.Holds.Over(identity.Scope{Project: p.Project, Deployment: p.Deployment}); h != nil {
		preview.Reason = r.Holds.Reason(h).String()
	}
	d, err := workflow.NewDraft(tx, workflow.NewStep(r.View, run, tx.Now), plan)
	if err != nil {
		return preview, err
	}
	if err := d.CarryOut(ctx, p.Waits); err != nil {
		return preview, err
	}
	preview.Calls = d.Seen
	return preview, r.addKept(tx, &preview, p, plan)
}

// addKept lists the resources of the deployment that the plan does not name.
func (r *Previewer) addKept(
	tx *journal.Tx, preview *writ.Preview, p *writ.Proposal, plan []workflow.ProposedCall,
) error {
	if p.Deployment == "" {
		return nil
	}
	named := make(map[writ.ResourceID]bool)
	for _, c := range plan {
		named[writ.ResourceID{Project: p.Project, Kind: c.Op.Kind, Name: c.Name}] = true
		for _, ref := range c.Op.Args.Named(c.Args) {
			named[writ.ResourceID{Project: p.Project, Kind: ref.Kind, Name: ref.Name}] = true
		}
	}
	all, err := tx.ProjectResources(p.Project)
	for _, resource := range all {
		switch {
		case resource.Deployment != p.Deployment || named[resource.ResourceID]:
		case len(preview.Kept) == maxKept:
			preview.KeptMore++
		default:
			preview.Kept = append(preview.Kept, writ.KeptResource{
				Kind: resource.Kind, Name: resource.Name, NodeName: r.View.Nodes.Name(resource.Node),
			})
		}
	}
	return err
}

// fitted returns a preview that fits into a frame of the link. It drops details of the calls of a very large preview.
func fitted(p writ.Preview) writ.Preview {
	text, err := json.Marshal(p)
	if err != nil || len(text) <= maxPreview {
		return p
	}
	for i := range p.Calls {
		c := &p.Calls[i]
		c.Nodes, c.Values, c.Drift, c.Reason = nil, nil, nil, workflow.Short(c.Reason)
		if c.Error != nil {
			c.Error = &writ.Error{Code: c.Error.Code, Message: workflow.Short(c.Error.Message)}
		}
		for j := range c.Fields {
			c.Fields[j].From, c.Fields[j].To = nil, nil
		}
	}
	return p
}
