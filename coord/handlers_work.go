package coord

import (
	"cmp"
	"context"
	"io"
	"time"
	"unicode/utf8"

	"writ"
	"writ/coord/access"
	"writ/coord/api"
	"writ/coord/api/apiserver"
	"writ/coord/front"
	"writ/coord/live"
	"writ/internal/failpoint"
	"writ/internal/lazyregexp"
	"writ/ledger"
	"writ/supervisor/link"
)

// readSigned reads the body of a signed text. The guard limits the size of the body, and the verifier the size of the
// text.
func readSigned(body io.Reader) ([]byte, error) {
	signed, err := io.ReadAll(body)
	if refused := front.RefusedBody(err); refused != nil {
		return nil, refused
	}
	if err != nil {
		return nil, writ.Errorf(writ.CodeBadRequest, "the body was cut off")
	}
	return signed, nil
}

func (h workHandlers) Submit(
	ctx context.Context, r apiserver.SubmitRequestObject,
) (apiserver.SubmitResponseObject, error) {
	signed, err := readSigned(r.Body)
	if err != nil {
		h.c.refusals.Record(ctx, h.c.Log.With("remote", remote(ctx)), "submission", err)
		return nil, err
	}
	s, err := h.c.delivery.Submit(ctx, signed, remote(ctx))
	if err != nil {
		return nil, err
	}
	failpoint.SubmissionAnswered.Begin()
	return apiserver.Submit202JSONResponse{
		Body: s, Headers: apiserver.Submit202ResponseHeaders{Location: "/v1/runs/" + string(s.Run)},
	}, nil
}

func (h workHandlers) GetSubmission(
	ctx context.Context, r apiserver.GetSubmissionRequestObject,
) (apiserver.GetSubmissionResponseObject, error) {
	s, err := h.c.Ledger.Submission(ctx, r.Digest)
	return apiserver.GetSubmission200JSONResponse(s), err
}

func (h workHandlers) GetSigned(
	ctx context.Context, r apiserver.GetSignedRequestObject,
) (apiserver.GetSignedResponseObject, error) {
	signed, err := h.c.Ledger.Signed(ctx, r.Digest)
	return apiserver.GetSigned200JSONResponse{Signed: signed}, err
}

func (h workHandlers) SubmitStatement(
	ctx context.Context, r apiserver.SubmitStatementRequestObject,
) (apiserver.SubmitStatementResponseObject, error) {
	signed, err := readSigned(r.Body)
	if err != nil {
		h.c.refusals.Record(ctx, h.c.Log.With("remote", remote(ctx)), "statement", err)
		return nil, err
	}
	answer, err := h.c.delivery.Forward(ctx, signed, remote(ctx))
	failpoint.StatementAnswered.Begin()
	return apiserver.SubmitStatement200JSONResponse{Subject: answer.Subject, Done: answer.Done, Proof: answer.Proof}, err
}

func (h workHandlers) ListRuns(
	ctx context.Context, r apiserver.ListRunsRequestObject,
) (apiserver.ListRunsResponseObject, error) {
	p := r.Params
	filter, err := runFilter(p, h.c.Now())
	if err != nil {
		return nil, err
	}
	for _, s := range p.State {
		if !s.Valid() {
			return nil, writ.Errorf(writ.CodeBadRequest, "unknown state %q", s).WithHint("the states are %v", ledger.States)
		}
		filter.States = append(filter.States, ledger.State(s))
	}
	if filter.Projects, err = h.projects(ctx, api.Value(p.Project)); err != nil {
		return nil, err
	}
	if filter.Datacenter, err = h.datacenter(ctx, api.Value(p.Datacenter)); err != nil {
		return nil, err
	}
	page, err := pageOf(p.Limit, p.Cursor)
	if err != nil {
		return nil, err
	}
	list, err := h.c.Ledger.Runs(ctx, filter, page)
	if err != nil {
		return nil, err
	}
	runs := api.Views(list.Items, h.c.explain.runView)
	if api.Value(p.Why) {
		why, err := h.c.explain.Why(ctx, list.Items...)
		if err != nil {
			return nil, err
		}
		for i := range runs {
			setWhy(&runs[i], why[runs[i].ID])
		}
	}
	return apiserver.ListRuns200JSONResponse{Items: runs, NextCursor: list.Next}, nil
}

// runFilter parses the parameters that filter runs. Clients omit unset parameters, because coordinators of earlier
// versions reject parameters that they do not support.
func runFilter(p api.ListRunsParams, now time.Time) (ledger.RunFilter, error) {
	filter := ledger.RunFilter{
		Signer: api.Value(p.Signer), Script: api.Value(p.Script), Deployment: api.Value(p.Deployment),
		Since: api.Value(p.Since), WithoutLogs: !api.Value(p.Logs) && p.Prefix == nil && p.Script == nil,
	}
	if p.Prefix != nil {
		if filter.Prefix = *p.Prefix; !runPrefix.MatchString(filter.Prefix) {
			return filter, writ.Errorf(writ.CodeBadRequest, "prefix: %q is not a prefix of a run id", filter.Prefix).
				WithHint("ids have 26 lower-case letters and digits from 2 to 7")
		}
	}
	if p.Text != nil {
		if filter.Text = *p.Text; filter.Text == "" || utf8.RuneCountInString(filter.Text) > ledger.MaxText {
			return filter, writ.Errorf(writ.CodeBadRequest, "text has %d characters; it must have 1 to %d",
				utf8.RuneCountInString(filter.Text), ledger.MaxText)
		}
	}
	if p.Stuck != nil {
		if *p.Stuck < 1 || *p.Stuck > maxStuck {
			return filter, writ.Errorf(writ.CodeBadRequest, "stuck is %d; it must be between 1 and %d seconds", *p.Stuck,
				maxStuck)
		}
		filter.Silent = now.Add(-time.Duration(*p.Stuck) * time.Second)
	}
	return filter, nil
}

// runPrefix matches a prefix of a run id.
var runPrefix = lazyregexp.New(`^[a-z2-7]{1,26}$`)

// maxStuck is a year, in seconds.
const maxStuck = 366 * 24 * 60 * 60

func (h workHandlers) GetRun(
	ctx context.Context, r apiserver.GetRunRequestObject,
) (apiserver.GetRunResponseObject, error) {
	run, err := h.c.Ledger.Run(ctx, r.Run)
	if err != nil {
		return nil, err
	}
	return apiserver.GetRun200JSONResponse(h.c.explain.runView(run)), nil
}

func (h workHandlers) ListCalls(
	ctx context.Context, r apiserver.ListCallsRequestObject,
) (apiserver.ListCallsResponseObject, error) {
	page, err := pageOf(r.Params.Limit, r.Params.Cursor)
	if err != nil {
		return nil, err
	}
	if _, err := h.c.Ledger.Run(ctx, r.Run); err != nil {
		return nil, err
	}
	list, err := h.c.Ledger.Calls(ctx, r.Run, page)
	return apiserver.ListCalls200JSONResponse{Items: list.Items, NextCursor: list.Next}, err
}

func (h workHandlers) GetValues(
	ctx context.Context, r apiserver.GetValuesRequestObject,
) (apiserver.GetValuesResponseObject, error) {
	after := api.Value(r.Params.After)
	if err := checkAfter(after); err != nil {
		return nil, err
	}
	limit := 0 // all calls
	if r.Params.Limit != nil {
		page, err := pageOf(r.Params.Limit, nil)
		if err != nil {
			return nil, err
		}
		limit = page.Limit
	}
	values, err := h.c.live.Values(ctx, r.Run, after, limit)
	return apiserver.GetValues200JSONResponse(values), err
}

func (h workHandlers) PreviewPlan(
	ctx context.Context, r apiserver.PreviewPlanRequestObject,
) (apiserver.PreviewPlanResponseObject, error) {
	id, err := h.datacenter(ctx, r.Datacenter)
	if err != nil {
		return nil, err
	}
	roster, err := h.c.rosters.Newest(ctx)
	if err != nil {
		return nil, err
	}
	if roster.Datacenter(id) == nil {
		return nil, writ.Errorf(writ.CodeDatacenterUnknown, "unknown datacenter %s", id).
			WithHint("`writ dc list` lists the datacenters")
	}
	var proposal writ.Proposal
	if err := link.Decode(*r.Body, &proposal); err != nil {
		return nil, err
	}
	if !access.ViewerOf(ctx).Reads(proposal.Project) {
		return nil, ledger.NotThere("project", proposal.Project)
	}
	preview, err := live.Ask[writ.Preview](ctx, h.c.live, id, link.VerbPlan, proposal)
	return apiserver.PreviewPlan200JSONResponse(preview), err
}

func (h workHandlers) ListLogs(
	ctx context.Context, r apiserver.ListLogsRequestObject,
) (apiserver.ListLogsResponseObject, error) {
	page, err := pageOf(r.Params.Limit, nil)
	if err != nil {
		return nil, err
	}
	after := api.Value(r.Params.After)
	if err := checkAfter(after); err != nil {
		return nil, err
	}
	lines, err := h.c.live.LogLines(ctx, r.Run, after, page.Limit)
	return apiserver.ListLogs200JSONResponse{Items: lines}, err
}

// firstNamed returns the event id after which a stream resumes: from the header, which browsers send, or else from the
// parameter.
func firstNamed(header, parameter *int64) (*int64, error) {
	named := cmp.Or(header, parameter)
	if named == nil {
		return nil, nil
	}
	return named, checkAfter(*named)
}

func (h workHandlers) WatchRun(
	ctx context.Context, r apiserver.WatchRunRequestObject,
) (apiserver.WatchRunResponseObject, error) {
	if _, err := h.c.Ledger.Run(ctx, r.Run); err != nil {
		return nil, err
	}
	named, err := firstNamed(r.Params.LastEventID, r.Params.After)
	if err != nil {
		return nil, err
	}
	s, err := h.c.streams.Open(ctx, ledger.EventFilter{Run: r.Run}, r.Params.Topics, named,
		func(oldest, _ int64) int64 { return oldest - 1 })
	if err != nil {
		return nil, err
	}
	return s, nil
}

func (h workHandlers) Watch(
	ctx context.Context, r apiserver.WatchRequestObject,
) (apiserver.WatchResponseObject, error) {
	datacenter, err := h.datacenter(ctx, api.Value(r.Params.Datacenter))
	if err != nil {
		return nil, err
	}
	projects, err := h.projects(ctx, "") // for a reader of some projects, the list also excludes events without a project
	if err != nil {
		return nil, err
	}
	named, err := firstNamed(r.Params.LastEventID, r.Params.After)
	if err != nil {
		return nil, err
	}
	s, err := h.c.streams.Open(ctx, ledger.EventFilter{Datacenter: datacenter, Projects: projects}, r.Params.Topics, named,
		func(_, newest int64) int64 { return newest })
	if err != nil {
		return nil, err
	}
	return s, nil
}
