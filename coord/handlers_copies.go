package coord

import (
	"context"
	"slices"

	"writ"
	"writ/coord/api"
	"writ/ledger"
	"writ/supervisor/link"
)

func (h handlers) ListNodes(ctx context.Context, r api.ListNodesRequestObject) (api.ListNodesResponseObject, error) {
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
	list, err := h.c.Nodes(ctx, filter, page)
	return api.ListNodes200JSONResponse{Items: views(list.Items, func(n writ.Node) writ.Node { return n }), NextCursor: list.Next}, err
}

func (h handlers) ListResources(ctx context.Context, r api.ListResourcesRequestObject) (api.ListResourcesResponseObject, error) {
	p := r.Params
	filter := ledger.ResourceFilter{Kind: api.Value(p.Kind), Node: api.Value(p.Node), Deployment: api.Value(p.Deployment)}
	known := []writ.ResourceKind{writ.KindMachine, writ.KindContainer, writ.KindVolume, writ.KindImage, writ.KindNetwork, writ.KindHeroDB}
	if p.Kind != nil && !slices.Contains(known, *p.Kind) {
		return nil, writ.Errorf(writ.CodeBadRequest, "kind: %q is not one of %v", *p.Kind, known)
	}
	s, err := h.selected(ctx, p.Limit, p.Cursor, p.Datacenter, p.Project)
	if err != nil {
		return nil, err
	}
	filter.Datacenter, filter.Projects = s.datacenter, s.projects
	list, err := h.c.Ledger.Resources(ctx, filter, s.page)
	return api.ListResources200JSONResponse{Items: list.Items, NextCursor: list.Next}, err
}

func (h handlers) ListDeployments(ctx context.Context, r api.ListDeploymentsRequestObject) (api.ListDeploymentsResponseObject, error) {
	p := r.Params
	filter := ledger.ResourceFilter{Deployment: api.Value(p.Name)}
	s, err := h.selected(ctx, p.Limit, p.Cursor, p.Datacenter, p.Project)
	if err != nil {
		return nil, err
	}
	filter.Datacenter, filter.Projects = s.datacenter, s.projects
	list, err := h.c.deployments(ctx, filter, s.page)
	return api.ListDeployments200JSONResponse(list), err
}

// deployments lists deployments with the newest run of each.
func (c *Coordinator) deployments(ctx context.Context, filter ledger.ResourceFilter, page ledger.Page) (api.DeploymentPage, error) {
	list, err := c.Ledger.Deployments(ctx, filter, page)
	shown := api.DeploymentPage{Items: make([]api.Deployment, len(list.Items)), NextCursor: list.Next}
	for i, d := range list.Items {
		shown.Items[i] = api.Deployment{Datacenter: d.Datacenter, Project: d.Project, ProjectName: c.rosters.ProjectName(d.Project), Name: d.Name, Resources: d.Resources}
		newest, revision, err := d.Newest(ctx, c.Ledger.Runs)
		if err != nil {
			return shown, err
		}
		if shown.Items[i].Revision = revision; newest != nil {
			run := c.runView(*newest)
			shown.Items[i].Run = &run
		}
	}
	return shown, err
}

func (h handlers) ListQueues(ctx context.Context, r api.ListQueuesRequestObject) (api.ListQueuesResponseObject, error) {
	only, err := h.datacenter(ctx, api.Value(r.Params.Datacenter))
	if err != nil {
		return nil, err
	}
	all, err := h.c.Queues(ctx)
	if only != "" {
		all = slices.DeleteFunc(all, func(q api.DatacenterQueues) bool { return q.Datacenter != only })
	}
	return api.ListQueues200JSONResponse{Items: all}, err
}

// Queues asks all datacenters for the depth of their queues. If a datacenter does not answer, its entry has the error.
func (c *Coordinator) Queues(ctx context.Context) ([]api.DatacenterQueues, error) {
	answers, err := c.queuesWithAges(ctx)
	return views(answers, func(a reply[[]link.QueueDepth]) api.DatacenterQueues {
		depth := func(q link.QueueDepth) writ.QueueDepth { return q.QueueDepth }
		return api.DatacenterQueues{Datacenter: a.ID, Name: a.Name, Queues: views(a.answer, depth), Error: writ.AsError(a.err)}
	}), err
}

// queuesWithAges is Queues with the age of the oldest calls. Datacenters of earlier versions report no ages.
func (c *Coordinator) queuesWithAges(ctx context.Context) ([]reply[[]link.QueueDepth], error) {
	return askAll[link.QueueDepth](ctx, c, "", link.VerbQueues, link.Queues{})
}

// ListSecrets asks datacenters for the list of their secrets. The coordinator does not store the answers.
func (h handlers) ListSecrets(ctx context.Context, r api.ListSecretsRequestObject) (api.ListSecretsResponseObject, error) {
	only, err := h.datacenter(ctx, api.Value(r.Params.Datacenter))
	if err != nil {
		return nil, err
	}
	projects, err := h.projects(ctx, api.Value(r.Params.Project))
	if err != nil {
		return nil, err
	}
	all, err := h.c.Secrets(ctx, only, projects)
	return api.ListSecrets200JSONResponse{Items: all}, err
}

// Secrets asks all datacenters, or only one, for the secrets of some projects. Without projects it lists those of all.
func (c *Coordinator) Secrets(ctx context.Context, only writ.DatacenterID, projects []writ.ProjectID) ([]api.DatacenterSecrets, error) {
	var asked link.Secrets // a datacenter accepts one project or all
	if len(projects) == 1 {
		asked.Project = projects[0]
	}
	answers, err := askAll[writ.Secret](ctx, c, only, link.VerbSecrets, asked)
	for i := range answers { // the reader's rights do not depend on the answer of the datacenter
		answers[i].answer = slices.DeleteFunc(answers[i].answer, func(s writ.Secret) bool { return len(projects) > 0 && !slices.Contains(projects, s.Project) })
	}
	return views(answers, func(a reply[[]writ.Secret]) api.DatacenterSecrets {
		return api.DatacenterSecrets{Datacenter: a.ID, Name: a.Name, Secrets: a.answer, Error: writ.AsError(a.err)}
	}), err
}

// ListTokens asks datacenters for their join tokens. The coordinator does not store the answers.
func (h handlers) ListTokens(ctx context.Context, r api.ListTokensRequestObject) (api.ListTokensResponseObject, error) {
	only, err := h.datacenter(ctx, api.Value(r.Params.Datacenter))
	if err != nil {
		return nil, err
	}
	answers, err := askAll[writ.JoinToken](ctx, h.c, only, link.VerbTokens, link.Tokens{})
	return api.ListTokens200JSONResponse{Items: views(answers, func(a reply[[]writ.JoinToken]) api.DatacenterTokens {
		return api.DatacenterTokens{Datacenter: a.ID, Name: a.Name, Tokens: a.answer, Error: writ.AsError(a.err)}
	})}, err
}

// ListBatches asks datacenters for their batches. The coordinator does not store the answers.
func (h handlers) ListBatches(ctx context.Context, r api.ListBatchesRequestObject) (api.ListBatchesResponseObject, error) {
	only, err := h.datacenter(ctx, api.Value(r.Params.Datacenter))
	if err != nil {
		return nil, err
	}
	answers, err := askAll[api.Batch](ctx, h.c, only, link.VerbBatches, link.Batches{})
	return api.ListBatches200JSONResponse{Items: views(answers, func(a reply[[]api.Batch]) api.DatacenterBatches {
		return api.DatacenterBatches{Datacenter: a.ID, Name: a.Name, Batches: a.answer, Error: writ.AsError(a.err)}
	})}, err
}

// ListCertificates lists the certificates of the coordinator and of the datacenters.
func (h handlers) ListCertificates(ctx context.Context, r api.ListCertificatesRequestObject) (api.ListCertificatesResponseObject, error) {
	only, err := h.datacenter(ctx, api.Value(r.Params.Datacenter))
	if err != nil {
		return nil, err
	}
	list := api.ListCertificates200JSONResponse{Items: []api.OwnerCertificates{}}
	if only == "" && h.c.Certificates != nil {
		own, err := h.c.Certificates()
		if err != nil {
			return nil, err
		}
		if h.c.PublicCertificate != nil {
			from, until := h.c.PublicCertificate()
			own = append(own, writ.Certificate{Of: "public", Name: h.c.PublicURL, From: from, Until: until})
		}
		list.Items = append(list.Items, api.OwnerCertificates{Name: h.c.ownName(ctx), Certificates: own})
	}
	answers, err := askAll[writ.Certificate](ctx, h.c, only, link.VerbCertificates, link.Certificates{})
	for _, a := range answers {
		list.Items = append(list.Items, api.OwnerCertificates{Datacenter: a.ID, Name: a.Name, Certificates: a.answer, Error: writ.AsError(a.err)})
	}
	return list, err
}

// ownName returns the name of this coordinator in the roster.
func (c *Coordinator) ownName(ctx context.Context) string {
	if roster, err := c.rosters.Newest(ctx); err == nil && c.Self != nil {
		if known := roster.Coordinator(c.Self.ID); known != nil {
			return known.Name
		}
	}
	return "coordinator"
}

// GetNodeStanding asks the datacenter for the state of a node. Its signed answer is passed on unchanged.
func (h handlers) GetNodeStanding(ctx context.Context, r api.GetNodeStandingRequestObject) (api.GetNodeStandingResponseObject, error) {
	nonce, err := nonceOf(r.Params.Nonce)
	if err != nil {
		return nil, err
	}
	id, err := h.datacenter(ctx, r.Datacenter)
	if err != nil {
		return nil, err
	}
	answer, err := ask[link.StandingAnswer](ctx, h.c, id, link.VerbNodeStanding, link.StandingOfNode{Node: r.Node, Nonce: nonce})
	return api.GetNodeStanding200JSONResponse{Proof: answer.Proof}, err
}

// maxNodeLines limits the lines of its log that a node returns in one answer.
const maxNodeLines = 1000

// GetNodeLog asks a node, through its datacenter, for lines of its log. The coordinator does not store them.
func (h handlers) GetNodeLog(ctx context.Context, r api.GetNodeLogRequestObject) (api.GetNodeLogResponseObject, error) {
	p := r.Params
	if p.Lines != nil && (*p.Lines < 1 || *p.Lines > maxNodeLines) {
		return nil, writ.Errorf(writ.CodeBadRequest, "lines is %d; it must be between 1 and %d", *p.Lines, maxNodeLines)
	}
	id, err := h.datacenter(ctx, r.Datacenter)
	if err != nil {
		return nil, err
	}
	query := link.LogOfNode{
		Node: r.Node, Source: api.Value(p.Source), Level: api.Value(p.Level), Since: api.Value(p.Since), After: api.Value(p.After), Lines: api.Value(p.Lines),
	}
	log, err := h.c.NodeLog(ctx, id, query)
	return api.GetNodeLog200JSONResponse(log), err
}

// NodeLog asks a node, through its datacenter, for lines of its log.
func (c *Coordinator) NodeLog(ctx context.Context, datacenter writ.DatacenterID, query link.LogOfNode) (api.NodeLog, error) {
	return ask[api.NodeLog](ctx, c, datacenter, link.VerbNodeLog, query)
}

// GetTokenStanding asks the datacenter for the state of its join tokens. Its signed answer is passed on unchanged.
func (h handlers) GetTokenStanding(ctx context.Context, r api.GetTokenStandingRequestObject) (api.GetTokenStandingResponseObject, error) {
	nonce, err := nonceOf(r.Params.Nonce)
	if err != nil {
		return nil, err
	}
	id, err := h.datacenter(ctx, r.Datacenter)
	if err != nil {
		return nil, err
	}
	answer, err := ask[link.StandingAnswer](ctx, h.c, id, link.VerbTokenStanding, link.StandingOfTokens{Nonce: nonce})
	return api.GetTokenStanding200JSONResponse{Proof: answer.Proof}, err
}
