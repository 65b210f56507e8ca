package supervisor

import (
	"context"
	"encoding/json"
	"time"

	"writ"
	"writ/identity"
	"writ/supervisor/journal"
	"writ/supervisor/workflow"
)

const (
	// maxPreviews limits the concurrent previews, of which each project may have one. Anyone may request previews, and
	// they must not take the processors from runs.
	maxPreviews = 2
	// previewWithin limits one preview. The largest possible plans take a tenth of that.
	previewWithin = 10 * time.Second
	// maxPreview limits the JSON of a preview, so that it fits into a frame of the link.
	maxPreview = 900 << 10
	// maxKept limits the listed resources of a deployment that a plan does not name.
	maxKept = 500
)

// Preview predicts the effects of a run of the proposal in the present state. It writes nothing and promises nothing:
// other runs may change the state.
func (s *Supervisor) Preview(ctx context.Context, proposal writ.Proposal) (writ.Preview, error) {
	if s.roster.Load().Project(proposal.Project) == nil {
		return writ.Preview{}, writ.Errorf(writ.CodeProjectUnknown, "the roster has no project %q",
			workflow.Short(string(proposal.Project)))
	}
	plan, err := workflow.ReadProposal(&proposal)
	if err != nil {
		return writ.Preview{}, err
	}
	ctx, stop := context.WithTimeoutCause(ctx, previewWithin, writ.Errorf(writ.CodeTimeout, "the preview took too long"))
	defer stop()
	done, err := s.previews.Enter(ctx, string(proposal.Project))
	if err != nil {
		return writ.Preview{}, err
	}
	defer done()
	var preview writ.Preview
	err = s.Journal.Read(ctx, func(tx *journal.Tx) (err error) {
		preview, err = s.preview(ctx, tx, &proposal, plan)
		return err
	})
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return fitted(preview), err
}

func (s *Supervisor) preview(
	ctx context.Context, tx *journal.Tx, p *writ.Proposal, plan []workflow.ProposedCall,
) (preview writ.Preview, err error) {
	if preview.Revision, err = tx.Revision(p.Project, p.Deployment); err != nil {
		return preview, err
	}
	if p.Base != nil && *p.Base != preview.Revision {
		preview.Refused = otherRevision(p.Deployment, preview.Revision, *p.Base)
	}
	run := workflow.ProposalRun(p, plan, s.roster.Load().Project(p.Project).Name, preview.Revision)
	earlier, err := tx.EarlierRun(run)
	if err != nil {
		return preview, err
	}
	if earlier != "" {
		preview.Reason = "waits for run " + string(earlier) + " of the same deployment"
	}
	if h := s.holds.Over(identity.Scope{Project: p.Project, Deployment: p.Deployment}); h != nil {
		preview.Reason = s.holds.Reason(h).String()
	}
	d, err := workflow.NewDraft(tx, workflow.NewStep(s.view, run, tx.Now), plan)
	if err != nil {
		return preview, err
	}
	if err := d.CarryOut(ctx); err != nil {
		return preview, err
	}
	preview.Calls = d.Seen
	return preview, s.addKept(tx, &preview, p, plan)
}

// addKept lists the resources of the deployment that the plan does not name.
func (s *Supervisor) addKept(
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
	for _, r := range all {
		switch {
		case r.Deployment != p.Deployment || named[r.ResourceID]:
		case len(preview.Kept) == maxKept:
			preview.KeptMore++
		default:
			preview.Kept = append(preview.Kept, writ.KeptResource{Kind: r.Kind, Name: r.Name, NodeName: s.fleet.Members.Name(r.Node)})
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
