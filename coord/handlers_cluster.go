package coord

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/hex"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"writ"
	"writ/coord/api"
	"writ/identity"
	"writ/internal/failpoint"
	"writ/internal/limit"
	"writ/ledger"
	"writ/supervisor/link"
)

// pageOf checks a page's parameters.
func pageOf(limit int, cursor string) (ledger.Page, error) {
	if limit < 0 || limit > ledger.MaxLimit {
		return ledger.Page{}, writ.Errorf(writ.CodeBadRequest, "limit is %d; a page has 1 to %d items", limit, ledger.MaxLimit)
	}
	if limit == 0 {
		limit = ledger.DefaultLimit
	}
	return ledger.Page{Limit: limit, Cursor: cursor}, nil
}

// datacenter finds a datacenter by its id or name; "" stays "".
func (h handlers) datacenter(ctx context.Context, text string) (writ.DatacenterID, error) {
	if text == "" || writ.ValidUUID(text) {
		return writ.DatacenterID(text), nil
	}
	roster, err := h.c.rosters.newest(ctx, h.c)
	if err != nil {
		return "", err
	}
	if d := roster.DatacenterNamed(text); d != nil {
		return d.ID, nil
	}
	return "", writ.Errorf(writ.CodeDatacenterUnknown, "there is no datacenter %q", text).WithHint("`writ dc list` shows them")
}

// projects returns the projects whose things a list shows: the one with an id or name, of those that the reader may see, or all of those for "". No
// projects stand for all that there are, so only readers of all get none.
func (h handlers) projects(ctx context.Context, text string) ([]writ.ProjectID, error) {
	who := viewerFrom(ctx)
	switch {
	case text == "" && who.all:
		return nil, nil
	case text == "" && len(who.projects) == 0:
		return nil, loginRequired("a list was asked for, and it is not known for whom")
	case text == "":
		return who.projects, nil
	case writ.ValidUUID(text):
		if !who.reads(writ.ProjectID(text)) {
			return nil, noProject(text)
		}
		return []writ.ProjectID{writ.ProjectID(text)}, nil
	}
	roster, err := h.c.rosters.newest(ctx, h.c)
	if err != nil {
		return nil, err
	}
	readable := slices.DeleteFunc(roster.ProjectsNamed(text), func(p identity.Project) bool { return !who.reads(p.ID) })
	switch len(readable) {
	case 1:
		return []writ.ProjectID{readable[0].ID}, nil
	case 0:
		return nil, noProject(text)
	default:
		return nil, writ.Errorf(writ.CodeBadRequest, "%d projects have the name %q", len(readable), text).WithHint("use the id; `writ project list` shows it")
	}
}

// noProject is the error about a project that there is not, or that the reader must not know of.
func noProject(text string) error {
	return writ.Errorf(writ.CodeNotFound, "there is no project %q", text).WithHint("`writ project list` shows them")
}

// checkAfter refuses the number of an item that no list has. What comes after the item 0 is the whole list.
func checkAfter[N int | int64](after N) error {
	if after < 0 {
		return writ.Errorf(writ.CodeBadRequest, "after is %d; the first item is number 1", after)
	}
	return nil
}

func (h handlers) GetRoster(ctx context.Context, r api.GetRosterRequestObject) (api.GetRosterResponseObject, error) {
	newest, err := h.c.rosters.newest(ctx, h.c)
	if err != nil {
		return nil, err
	}
	after := newest.Version - 1
	if r.Params.After != nil {
		after = *r.Params.After
	}
	if err := checkAfter(after); err != nil {
		return nil, err
	}
	signed, err := h.c.Ledger.Rosters(ctx, after)
	if signed == nil {
		signed = [][]byte{}
	}
	return api.GetRoster200JSONResponse{Cluster: newest.Cluster, Version: newest.Version, Expires: newest.Expires, Signed: identity.FirstPage(signed)}, err
}

func (h handlers) AddRoster(ctx context.Context, r api.AddRosterRequestObject) (api.AddRosterResponseObject, error) {
	signed, err := readSigned(r.Body)
	version := 0
	if err == nil {
		version, err = h.c.AddRoster(ctx, signed)
	}
	if err != nil {
		h.c.refused(ctx, h.c.Log.With("remote", remote(ctx)), "roster", err)
		return nil, err
	}
	failpoint.RosterAnswered.Begin()
	return api.AddRoster200JSONResponse{Version: version}, nil
}

func (h handlers) ListRegions(ctx context.Context, _ api.ListRegionsRequestObject) (api.ListRegionsResponseObject, error) {
	all, err := h.c.Ledger.Regions(ctx)
	return api.ListRegions200JSONResponse{Items: views(all, regionView)}, err
}

func (h handlers) ListDatacenters(ctx context.Context, _ api.ListDatacentersRequestObject) (api.ListDatacentersResponseObject, error) {
	all, err := h.c.Datacenters(ctx)
	return api.ListDatacenters200JSONResponse{Items: all}, err
}

func (h handlers) ListRegistrations(ctx context.Context, _ api.ListRegistrationsRequestObject) (api.ListRegistrationsResponseObject, error) {
	all, err := h.c.Ledger.Registrations(ctx)
	return api.ListRegistrations200JSONResponse{Items: views(all, registrationView)}, err
}

// Register records a supervisor that asks for a place in the roster. Only its form is checked: what it is worth is up to the person who
// signs the roster.
func (h handlers) Register(ctx context.Context, r api.RegisterRequestObject) (api.RegisterResponseObject, error) {
	b := r.Body
	if err := checkRegistration(b); err != nil {
		return nil, err
	}
	roster, err := h.c.rosters.newest(ctx, h.c)
	if err != nil {
		return nil, err
	}
	if d := roster.DatacenterOf(b.Key); d != nil {
		return nil, writ.Errorf(writ.CodeConflict, "the roster has this key already, for the datacenter %s", d.Name)
	}
	in := ledger.Registration{
		Token: b.Token, Name: b.Name, Key: b.Key, Nonce: b.Nonce, Proof: b.Proof, URL: b.URL,
		Network: limit.NetworkOf(remote(ctx)), Received: time.Now().UTC().Truncate(time.Microsecond),
	}
	if err := h.c.Ledger.AddRegistration(ctx, in); err != nil {
		return nil, err
	}
	if times, say := h.c.lines.Say("registration", time.Now()); say { // anybody may ask, under any name
		h.c.Log.InfoContext(ctx, "supervisor asks for admission", "name", b.Name, "remote", remote(ctx), "times", times)
	}
	waiting, err := h.c.Ledger.Registrations(ctx)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(waiting, func(w ledger.Registration) bool { return w.ID() == in.ID() })
	if i >= 0 {
		in = waiting[i] // the one that was first
	}
	failpoint.RegistrationAnswered.Begin()
	return api.Register202JSONResponse(registrationView(in)), nil
}

const maxURL = 512

func checkRegistration(b *api.NewRegistration) error {
	switch {
	case !writ.ValidName(b.Name):
		return writ.Errorf(writ.CodeBadRequest, "name: %q is not a proper name", b.Name).WithHint("use lower-case letters, digits and hyphens")
	case len(b.Key) != ed25519.PublicKeySize:
		return writ.Errorf(writ.CodeBadRequest, "key: it has %d bytes, an ed25519 public key has %d", len(b.Key), ed25519.PublicKeySize)
	case len(b.Nonce) != identity.NonceSize:
		return writ.Errorf(writ.CodeBadRequest, "nonce: it has %d bytes, not %d", len(b.Nonce), identity.NonceSize)
	case len(b.Token) > 64 || len(b.Proof) > 128:
		return writ.Errorf(writ.CodeBadRequest, "token or proof: they are longer than any token makes them")
	case b.Token == "" && len(b.Proof) > 0 || b.Token != "" && len(b.Proof) == 0:
		return writ.Errorf(writ.CodeBadRequest, "token and proof: one does not go without the other")
	}
	if u, err := url.Parse(b.URL); b.URL != "" && (err != nil || u.Host == "" || !strings.HasPrefix(u.Scheme, "http") || len(b.URL) > maxURL) {
		return writ.Errorf(writ.CodeBadRequest, "url: %q is no address of a supervisor", b.URL)
	}
	return nil
}

func (h handlers) ListProjects(ctx context.Context, _ api.ListProjectsRequestObject) (api.ListProjectsResponseObject, error) {
	all, err := h.c.Ledger.Projects(ctx)
	who := viewerFrom(ctx)
	all = slices.DeleteFunc(all, func(p identity.Project) bool { return !who.reads(p.ID) })
	return api.ListProjects200JSONResponse{Items: views(all, projectView)}, err
}

func (h handlers) ListNodes(ctx context.Context, r api.ListNodesRequestObject) (api.ListNodesResponseObject, error) {
	p := r.Params
	filter := ledger.NodeFilter{Admission: p.Admission}
	known := []writ.Admission{"", writ.AdmissionPending, writ.AdmissionApproved, writ.AdmissionRejected, writ.AdmissionRemoved}
	if !slices.Contains(known, p.Admission) {
		return nil, writ.Errorf(writ.CodeBadRequest, "admission: %q is not one of %v", p.Admission, known[1:])
	}
	page, err := pageOf(p.Limit, p.Cursor)
	if err != nil {
		return nil, err
	}
	if filter.Datacenter, err = h.datacenter(ctx, p.Datacenter); err != nil {
		return nil, err
	}
	list, err := h.c.Nodes(ctx, filter, page)
	return api.ListNodes200JSONResponse{Items: views(list.Items, func(n writ.Node) writ.Node { return n }), NextCursor: list.Next}, err
}

func (h handlers) ListResources(ctx context.Context, r api.ListResourcesRequestObject) (api.ListResourcesResponseObject, error) {
	p := r.Params
	filter := ledger.ResourceFilter{Kind: p.Kind, Node: p.Node, Deployment: p.Deployment}
	known := []writ.ResourceKind{"", writ.KindMachine, writ.KindContainer, writ.KindVolume, writ.KindImage, writ.KindNetwork, writ.KindHeroDB}
	if !slices.Contains(known, p.Kind) {
		return nil, writ.Errorf(writ.CodeBadRequest, "kind: %q is not one of %v", p.Kind, known[1:])
	}
	page, err := pageOf(p.Limit, p.Cursor)
	if err != nil {
		return nil, err
	}
	if filter.Datacenter, err = h.datacenter(ctx, p.Datacenter); err != nil {
		return nil, err
	}
	if filter.Projects, err = h.projects(ctx, p.Project); err != nil {
		return nil, err
	}
	list, err := h.c.Ledger.Resources(ctx, filter, page)
	return api.ListResources200JSONResponse{Items: list.Items, NextCursor: list.Next}, err
}

func (h handlers) ListQueues(ctx context.Context, r api.ListQueuesRequestObject) (api.ListQueuesResponseObject, error) {
	only, err := h.datacenter(ctx, r.Params.Datacenter)
	if err != nil {
		return nil, err
	}
	all, err := h.c.Queues(ctx)
	if only != "" {
		all = slices.DeleteFunc(all, func(q api.DatacenterQueues) bool { return q.Datacenter != only })
	}
	return api.ListQueues200JSONResponse{Items: all}, err
}

// Queues asks all datacenters for the depth of their queues. One that does not answer says why.
func (c *Coordinator) Queues(ctx context.Context) ([]api.DatacenterQueues, error) {
	answers, err := askAll[writ.QueueDepth](ctx, c, "", link.VerbQueues, link.Queues{})
	return views(answers, func(a reply[[]writ.QueueDepth]) api.DatacenterQueues {
		return api.DatacenterQueues{Datacenter: a.ID, Name: a.Name, Queues: a.answer, Error: writ.AsError(a.err)}
	}), err
}

// ListSecrets asks datacenters which secrets they have. The answers pass through and are kept nowhere.
func (h handlers) ListSecrets(ctx context.Context, r api.ListSecretsRequestObject) (api.ListSecretsResponseObject, error) {
	only, err := h.datacenter(ctx, r.Params.Datacenter)
	if err != nil {
		return nil, err
	}
	projects, err := h.projects(ctx, r.Params.Project)
	if err != nil {
		return nil, err
	}
	all, err := h.c.Secrets(ctx, only, projects)
	return api.ListSecrets200JSONResponse{Items: all}, err
}

// Secrets asks all datacenters, or only one, which secrets they have of some projects, or of all if none is given.
func (c *Coordinator) Secrets(ctx context.Context, only writ.DatacenterID, projects []writ.ProjectID) ([]api.DatacenterSecrets, error) {
	var asked link.Secrets // a datacenter is asked for one project or for all
	if len(projects) == 1 {
		asked.Project = projects[0]
	}
	answers, err := askAll[writ.Secret](ctx, c, only, link.VerbSecrets, asked)
	for i := range answers { // what the reader may see does not depend on the datacenter
		answers[i].answer = slices.DeleteFunc(answers[i].answer, func(s writ.Secret) bool { return len(projects) > 0 && !slices.Contains(projects, s.Project) })
	}
	return views(answers, func(a reply[[]writ.Secret]) api.DatacenterSecrets {
		return api.DatacenterSecrets{Datacenter: a.ID, Name: a.Name, Secrets: a.answer, Error: writ.AsError(a.err)}
	}), err
}

// ListTokens asks datacenters which join tokens they have. The answers pass through and are kept nowhere.
func (h handlers) ListTokens(ctx context.Context, r api.ListTokensRequestObject) (api.ListTokensResponseObject, error) {
	only, err := h.datacenter(ctx, r.Params.Datacenter)
	if err != nil {
		return nil, err
	}
	answers, err := askAll[writ.JoinToken](ctx, h.c, only, link.VerbTokens, link.Tokens{})
	return api.ListTokens200JSONResponse{Items: views(answers, func(a reply[[]writ.JoinToken]) api.DatacenterTokens {
		return api.DatacenterTokens{Datacenter: a.ID, Name: a.Name, Tokens: a.answer, Error: writ.AsError(a.err)}
	})}, err
}

// ListBatches asks datacenters which batches they have. The answers pass through and are kept nowhere.
func (h handlers) ListBatches(ctx context.Context, r api.ListBatchesRequestObject) (api.ListBatchesResponseObject, error) {
	only, err := h.datacenter(ctx, r.Params.Datacenter)
	if err != nil {
		return nil, err
	}
	answers, err := askAll[api.Batch](ctx, h.c, only, link.VerbBatches, link.Batches{})
	return api.ListBatches200JSONResponse{Items: views(answers, func(a reply[[]api.Batch]) api.DatacenterBatches {
		return api.DatacenterBatches{Datacenter: a.ID, Name: a.Name, Batches: a.answer, Error: writ.AsError(a.err)}
	})}, err
}

// ListCertificates says which certificates the coordinator has, and asks the datacenters for theirs.
func (h handlers) ListCertificates(ctx context.Context, r api.ListCertificatesRequestObject) (api.ListCertificatesResponseObject, error) {
	only, err := h.datacenter(ctx, r.Params.Datacenter)
	if err != nil {
		return nil, err
	}
	var list api.ListCertificates200JSONResponse
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

// ownName is what the roster calls this coordinator.
func (c *Coordinator) ownName(ctx context.Context) string {
	if roster, err := c.rosters.newest(ctx, c); err == nil && c.Self != nil {
		if known := roster.Coordinator(c.Self.ID); known != nil {
			return known.Name
		}
	}
	return "coordinator"
}

// ListAdoptions asks the datacenters which roster is in force there. What they sign passes through.
func (h handlers) ListAdoptions(ctx context.Context, r api.ListAdoptionsRequestObject) (api.ListAdoptionsResponseObject, error) {
	nonce, err := nonceOf(r.Params.Nonce)
	if err != nil {
		return nil, err
	}
	answers, err := askEach[link.AdoptedAnswer](ctx, h.c, "", link.VerbAdopted, link.Adopted{Nonce: nonce})
	return api.ListAdoptions200JSONResponse{Items: views(answers, func(a reply[link.AdoptedAnswer]) api.DatacenterAdoption {
		return api.DatacenterAdoption{Datacenter: a.ID, Name: a.Name, Proof: a.answer.Proof, Error: writ.AsError(a.err)}
	})}, err
}

// GetNodeStanding asks the datacenter how a node stands. What it signs passes through.
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

// GetNodeLog asks a node for lines of its log, by way of its datacenter. They pass through and are kept nowhere.
func (h handlers) GetNodeLog(ctx context.Context, r api.GetNodeLogRequestObject) (api.GetNodeLogResponseObject, error) {
	id, err := h.datacenter(ctx, r.Datacenter)
	if err != nil {
		return nil, err
	}
	p := r.Params
	query := link.LogOfNode{Node: r.Node, Source: p.Source, Level: p.Level, After: p.After, Lines: p.Lines}
	if p.Since != nil {
		query.Since = *p.Since
	}
	log, err := h.c.NodeLog(ctx, id, query)
	return api.GetNodeLog200JSONResponse(log), err
}

// NodeLog asks a node for lines of its log, by way of its datacenter.
func (c *Coordinator) NodeLog(ctx context.Context, datacenter writ.DatacenterID, query link.LogOfNode) (api.NodeLog, error) {
	return ask[api.NodeLog](ctx, c, datacenter, link.VerbNodeLog, query)
}

// GetTokenStanding asks the datacenter which join tokens it has. What it signs passes through.
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

// nonceOf reads the nonce of a client.
func nonceOf(digits string) ([]byte, error) {
	nonce, err := hex.DecodeString(digits)
	if err != nil || len(nonce) != writ.ClientNonce {
		return nil, writ.Errorf(writ.CodeBadRequest, "nonce: %d hex digits are needed", 2*writ.ClientNonce)
	}
	return nonce, nil
}

// reply is what a datacenter answered, or why it did not.
type reply[T any] struct {
	writ.Datacenter
	answer T
	err    error
}

const askWithin = 5 * time.Second

// askAll asks all datacenters at the same time for a list, or only one of them. Who does not answer has an empty one.
func askAll[T any](ctx context.Context, c *Coordinator, only writ.DatacenterID, verb link.Verb, params any) ([]reply[[]T], error) {
	answers, err := askEach[[]T](ctx, c, only, verb, params)
	for i := range answers {
		if answers[i].answer == nil {
			answers[i].answer = []T{}
		}
	}
	return answers, err
}

// askEach asks all datacenters at the same time, or only one of them.
func askEach[T any](ctx context.Context, c *Coordinator, only writ.DatacenterID, verb link.Verb, params any) ([]reply[T], error) {
	datacenters, err := c.Ledger.Datacenters(ctx)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	var answers []reply[T]
	for _, d := range datacenters {
		if only == "" || d.ID == only {
			answers = append(answers, reply[T]{Datacenter: d.Datacenter})
		}
	}
	var asking sync.WaitGroup
	for i := range answers {
		a := &answers[i]
		asking.Go(func() { a.answer, a.err = ask[T](ctx, c, a.ID, verb, params) })
	}
	asking.Wait()
	return answers, nil
}

func (h handlers) GetHealth(context.Context, api.GetHealthRequestObject) (api.GetHealthResponseObject, error) {
	return api.GetHealth200JSONResponse{Alive: true, Version: h.c.Version}, nil
}

// GetReadiness says whether submissions can be taken: that no datacenter is connected keeps none from being taken.
func (h handlers) GetReadiness(ctx context.Context, _ api.GetReadinessRequestObject) (api.GetReadinessResponseObject, error) {
	check := func(name string, err error) api.Check {
		if err != nil {
			return api.Check{Name: name, Detail: writ.AsError(err).Message}
		}
		return api.Check{Name: name, OK: true}
	}
	roster, err := h.c.rosters.newest(ctx, h.c)
	if err == nil && h.c.Now().After(roster.Expires) {
		err = writ.Errorf(writ.CodeRosterTooOld, "version %d of the roster expired on %s", roster.Version, roster.Expires.Format(time.DateOnly))
	}
	checks := []api.Check{check("ledger", h.c.ledgerWorks(ctx)), check("roster", err)}
	if slices.ContainsFunc(checks, func(c api.Check) bool { return !c.OK }) {
		return api.GetReadiness503JSONResponse{Ready: false, Checks: checks}, nil
	}
	return api.GetReadiness200JSONResponse{Ready: true, Checks: checks}, nil
}

// checkEvery bounds how often the ledger is written only to see whether it can be.
const checkEvery = time.Second

// probe is what the last check of the ledger said.
type probe struct {
	mu  sync.Mutex
	at  time.Time
	err error
}

// ledgerWorks checks the ledger, or says what it said a moment ago.
func (c *Coordinator) ledgerWorks(ctx context.Context) error {
	c.probe.mu.Lock()
	defer c.probe.mu.Unlock()
	if time.Since(c.probe.at) >= checkEvery {
		err := c.Ledger.Check(ctx)
		if ctx.Err() != nil {
			return err // it says nothing about the ledger
		}
		c.probe.err, c.probe.at = err, time.Now()
	}
	return c.probe.err
}

func (h handlers) GetMetrics(ctx context.Context, _ api.GetMetricsRequestObject) (api.GetMetricsResponseObject, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "/metrics", nil)
	return metricsPage{h.c.metrics, r}, err
}

// metricsPage lets the Prometheus library answer, in its plain format.
type metricsPage struct {
	*metrics
	r *http.Request
}

func (m metricsPage) VisitGetMetricsResponse(w http.ResponseWriter) error {
	// A datacenter that tells of two nodes of one name makes two metrics of one. That must not hide those of all others.
	promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError}).ServeHTTP(w, m.r)
	return nil
}

func (h handlers) GetOpenAPI(context.Context, api.GetOpenAPIRequestObject) (api.GetOpenAPIResponseObject, error) {
	return api.GetOpenAPI200ApplicationYamlResponse{Body: bytes.NewReader(api.Spec), ContentLength: int64(len(api.Spec))}, nil
}
