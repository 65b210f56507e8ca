package coord

import (
	"context"
	"slices"

	"writ"
	"writ/coord/access"
	"writ/coord/api"
	"writ/coord/api/apiserver"
	"writ/coord/live"
	"writ/ledger"
	"writ/supervisor/link"
)

func (h copyHandlers) ListNodes(
	ctx context.Context, r apiserver.ListNodesRequestObject,
) (apiserver.ListNodesResponseObject, error) {
	p := r.Params
	filter := ledger.NodeFilter{Admission: api.Value(p.Admission)}
	known := []writ.Admission{writ.AdmissionPending, writ.AdmissionApproved, writ.AdmissionRejected, writ.AdmissionRemoved}
	if p.Admission != nil && !slices.Contains(known, *p.Admission) {
		return nil, writ.Errorf(writ.CodeBadRequest, "admission: %q is not one of %v", *p.Admission, known)
	}
	page, err := pageOf(p.Limit, p.Cursor)
	if err != nil {
		return nil, err
	}
	if filter.Datacenter, err = h.datacenter(ctx, api.Value(p.Datacenter)); err != nil {
		return nil, err
	}
	list, err := h.c.live.Nodes(ctx, filter, page)
	return apiserver.ListNodes200JSONResponse{
		Items: api.Views(list.Items, func(n writ.Node) writ.Node { return n }), NextCursor: list.Next,
	}, err
}

func (h copyHandlers) ListResources(
	ctx context.Context, r apiserver.ListResourcesRequestObject,
) (apiserver.ListResourcesResponseObject, error) {
	p := r.Params
	filter := ledger.ResourceFilter{
		Kind: api.Value(p.Kind), Name: api.Value(p.Name), Node: api.Value(p.Node), Deployment: api.Value(p.Deployment),
	}
	if p.Kind != nil && !slices.Contains(writ.ResourceKinds, *p.Kind) {
		return nil, writ.Errorf(writ.CodeBadRequest, "kind: %q is not one of %v", *p.Kind, writ.ResourceKinds)
	}
	s, err := h.selected(ctx, p.Limit, p.Cursor, p.Datacenter, p.Project)
	if err != nil {
		return nil, err
	}
	filter.Datacenter, filter.Projects = s.datacenter, s.projects
	list, err := h.c.Ledger.Resources(ctx, filter, s.page)
	if err != nil {
		return nil, err
	}
	listed, err := live.Listed(ctx, h.c.live, list.Items, api.Value(p.Samples))
	return apiserver.ListResources200JSONResponse{Items: listed, NextCursor: list.Next}, err
}

func (h copyHandlers) ListDeployments(
	ctx context.Context, r apiserver.ListDeploymentsRequestObject,
) (apiserver.ListDeploymentsResponseObject, error) {
	p := r.Params
	filter := ledger.ResourceFilter{Deployment: api.Value(p.Name)}
	s, err := h.selected(ctx, p.Limit, p.Cursor, p.Datacenter, p.Project)
	if err != nil {
		return nil, err
	}
	filter.Datacenter, filter.Projects = s.datacenter, s.projects
	list, err := h.deployments(ctx, filter, s.page)
	return apiserver.ListDeployments200JSONResponse(list), err
}

// deployments lists deployments with the newest run of each.
func (h copyHandlers) deployments(
	ctx context.Context, filter ledger.ResourceFilter, page ledger.Page,
) (api.DeploymentPage, error) {
	list, err := h.c.Ledger.Deployments(ctx, filter, page)
	shown := api.DeploymentPage{Items: make([]api.Deployment, len(list.Items)), NextCursor: list.Next}
	for i, d := range list.Items {
		shown.Items[i] = api.Deployment{
			Datacenter: d.Datacenter, Project: d.Project, ProjectName: h.c.rosters.ProjectName(d.Project), Name: d.Name,
			Resources: d.Resources,
		}
		newest, revision, err := d.Newest(ctx, h.c.Ledger.Runs)
		if err != nil {
			return shown, err
		}
		if shown.Items[i].Revision = revision; newest != nil {
			run := h.c.explain.runView(*newest)
			shown.Items[i].Run = &run
		}
	}
	return shown, err
}

func (h copyHandlers) ListQueues(
	ctx context.Context, r apiserver.ListQueuesRequestObject,
) (apiserver.ListQueuesResponseObject, error) {
	only, err := h.datacenter(ctx, api.Value(r.Params.Datacenter))
	if err != nil {
		return nil, err
	}
	all, err := h.c.live.Queues(ctx)
	if only != "" {
		all = slices.DeleteFunc(all, func(q api.DatacenterQueues) bool { return q.Datacenter != only })
	}
	return apiserver.ListQueues200JSONResponse{Items: all}, err
}

// ListSecrets asks datacenters for the list of their secrets. The coordinator does not store the answers.
func (h copyHandlers) ListSecrets(
	ctx context.Context, r apiserver.ListSecretsRequestObject,
) (apiserver.ListSecretsResponseObject, error) {
	only, err := h.datacenter(ctx, api.Value(r.Params.Datacenter))
	if err != nil {
		return nil, err
	}
	projects, err := h.projects(ctx, api.Value(r.Params.Project))
	if err != nil {
		return nil, err
	}
	all, err := h.c.live.Secrets(ctx, only, projects)
	return apiserver.ListSecrets200JSONResponse{Items: all}, err
}

// ListTokens asks datacenters for their join tokens. The coordinator does not store the answers.
func (h copyHandlers) ListTokens(
	ctx context.Context, r apiserver.ListTokensRequestObject,
) (apiserver.ListTokensResponseObject, error) {
	only, err := h.datacenter(ctx, api.Value(r.Params.Datacenter))
	if err != nil {
		return nil, err
	}
	answers, err := live.All[writ.JoinToken](ctx, h.c.live, only, link.VerbTokens, link.Tokens{})
	return apiserver.ListTokens200JSONResponse{Items: api.Views(answers,
		func(a live.Reply[[]writ.JoinToken]) api.DatacenterTokens {
			return api.DatacenterTokens{Datacenter: a.ID, Name: a.Name, Tokens: a.Answer, Error: writ.AsError(a.Err)}
		})}, err
}

// ListBatches asks datacenters for their batches. The coordinator does not store the answers.
func (h copyHandlers) ListBatches(
	ctx context.Context, r apiserver.ListBatchesRequestObject,
) (apiserver.ListBatchesResponseObject, error) {
	only, err := h.datacenter(ctx, api.Value(r.Params.Datacenter))
	if err != nil {
		return nil, err
	}
	answers, err := live.All[api.Batch](ctx, h.c.live, only, link.VerbBatches, link.Batches{})
	return apiserver.ListBatches200JSONResponse{Items: api.Views(answers,
		func(a live.Reply[[]api.Batch]) api.DatacenterBatches {
			return api.DatacenterBatches{Datacenter: a.ID, Name: a.Name, Batches: a.Answer, Error: writ.AsError(a.Err)}
		})}, err
}

// ListCertificates lists the certificates of the coordinator and of the datacenters.
func (h copyHandlers) ListCertificates(
	ctx context.Context, r apiserver.ListCertificatesRequestObject,
) (apiserver.ListCertificatesResponseObject, error) {
	only, err := h.datacenter(ctx, api.Value(r.Params.Datacenter))
	if err != nil {
		return nil, err
	}
	list := apiserver.ListCertificates200JSONResponse{Items: []api.OwnerCertificates{}}
	if only == "" && h.c.Certificates != nil {
		own, err := h.c.Certificates()
		if err != nil {
			return nil, err
		}
		if h.c.PublicCertificate != nil {
			from, until := h.c.PublicCertificate()
			own = append(own, writ.Certificate{Of: "public", Name: h.c.PublicURL, From: from, Until: until})
		}
		list.Items = append(list.Items, api.OwnerCertificates{Name: h.ownName(ctx), Certificates: own})
	}
	answers, err := live.All[writ.Certificate](ctx, h.c.live, only, link.VerbCertificates, link.Certificates{})
	for _, a := range answers {
		list.Items = append(list.Items,
			api.OwnerCertificates{Datacenter: a.ID, Name: a.Name, Certificates: a.Answer, Error: writ.AsError(a.Err)})
	}
	return list, err
}

// ownName returns the name of this coordinator in the roster.
func (h copyHandlers) ownName(ctx context.Context) string {
	if roster, err := h.c.rosters.Newest(ctx); err == nil && h.c.Self != nil {
		if known := roster.Coordinator(h.c.Self.ID); known != nil {
			return known.Name
		}
	}
	return "coordinator"
}

// maxNodeLines limits the lines of its log that a node returns in one answer.
const maxNodeLines = 1000

// GetNodeLog asks a node, through its datacenter, for lines of its log. The coordinator does not store the lines.
func (h copyHandlers) GetNodeLog(
	ctx context.Context, r apiserver.GetNodeLogRequestObject,
) (apiserver.GetNodeLogResponseObject, error) {
	p := r.Params
	if p.Lines != nil && (*p.Lines < 1 || *p.Lines > maxNodeLines) {
		return nil, writ.Errorf(writ.CodeBadRequest, "lines is %d; it must be between 1 and %d", *p.Lines, maxNodeLines)
	}
	id, err := h.datacenter(ctx, r.Datacenter)
	if err != nil {
		return nil, err
	}
	query := link.LogOfNode{
		Node: r.Node, Source: api.Value(p.Source), Level: api.Value(p.Level), Since: api.Value(p.Since),
		After: api.Value(p.After), Lines: api.Value(p.Lines),
	}
	log, err := h.c.live.NodeLog(ctx, id, query)
	return apiserver.GetNodeLog200JSONResponse(log), err
}

// ListBoots asks datacenters for the machines that boot there. The coordinator does not store the answers.
func (h copyHandlers) ListBoots(
	ctx context.Context, r apiserver.ListBootsRequestObject,
) (apiserver.ListBootsResponseObject, error) {
	only, err := h.datacenter(ctx, api.Value(r.Params.Datacenter))
	if err != nil {
		return nil, err
	}
	all, err := h.c.live.Boots(ctx, only, link.MaxBootMachines)
	return apiserver.ListBoots200JSONResponse{Items: all}, err
}

// ListHolds asks datacenters for their holds. Readers of some projects get the holds of these projects and the holds of
// whole datacenters.
func (h copyHandlers) ListHolds(
	ctx context.Context, r apiserver.ListHoldsRequestObject,
) (apiserver.ListHoldsResponseObject, error) {
	only, err := h.datacenter(ctx, api.Value(r.Params.Datacenter))
	if err != nil {
		return nil, err
	}
	who := access.ViewerOf(ctx)
	all, err := h.c.live.Holds(ctx, only)
	for i := range all {
		all[i].Holds = slices.DeleteFunc(all[i].Holds,
			func(d api.Hold) bool { return d.Project != "" && !who.Reads(d.Project) })
	}
	return apiserver.ListHolds200JSONResponse{Items: all}, err
}
