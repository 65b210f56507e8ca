package coord

import (
	"context"
	"crypto/ed25519"
	"net/url"
	"slices"
	"strings"
	"time"

	"writ"
	"writ/coord/access"
	"writ/coord/api"
	"writ/coord/api/apiserver"
	"writ/identity"
	"writ/internal/failpoint"
	"writ/internal/limit"
	"writ/ledger"
)

func (h clusterHandlers) GetRoster(
	ctx context.Context, r apiserver.GetRosterRequestObject,
) (apiserver.GetRosterResponseObject, error) {
	if r.Params.After == nil {
		return h.c.rosters.Pages.Newest(ctx, remote(ctx))
	}
	if err := checkAfter(*r.Params.After); err != nil {
		return nil, err
	}
	return h.c.rosters.Pages.After(ctx, remote(ctx), *r.Params.After)
}

func (h clusterHandlers) AddRoster(
	ctx context.Context, r apiserver.AddRosterRequestObject,
) (apiserver.AddRosterResponseObject, error) {
	signed, err := readSigned(r.Body)
	version := 0
	if err == nil {
		version, err = h.c.AddRoster(ctx, signed)
	}
	if err != nil {
		h.c.refusals.Record(ctx, h.c.Log.With("remote", remote(ctx)), "roster", err)
		return nil, err
	}
	failpoint.RosterAnswered.Begin()
	return apiserver.AddRoster200JSONResponse{Version: version}, nil
}

func (h clusterHandlers) ListRegions(
	ctx context.Context, _ apiserver.ListRegionsRequestObject,
) (apiserver.ListRegionsResponseObject, error) {
	all, err := h.c.Ledger.Regions(ctx)
	return apiserver.ListRegions200JSONResponse{Items: api.Views(all, regionView)}, err
}

func (h clusterHandlers) ListDatacenters(
	ctx context.Context, _ apiserver.ListDatacentersRequestObject,
) (apiserver.ListDatacentersResponseObject, error) {
	all, err := h.c.live.Datacenters(ctx)
	return apiserver.ListDatacenters200JSONResponse{Items: all}, err
}

func (h clusterHandlers) ListRegistrations(
	ctx context.Context, _ apiserver.ListRegistrationsRequestObject,
) (apiserver.ListRegistrationsResponseObject, error) {
	all, err := h.c.Ledger.Registrations(ctx)
	return apiserver.ListRegistrations200JSONResponse{Items: api.Views(all, registrationView)}, err
}

// Register records a supervisor that asks for admission to the roster. It checks only the form of the request: the
// signer of the roster checks the contents.
func (h clusterHandlers) Register(
	ctx context.Context, r apiserver.RegisterRequestObject,
) (apiserver.RegisterResponseObject, error) {
	b := r.Body
	if err := checkRegistration(b); err != nil {
		return nil, err
	}
	roster, err := h.c.rosters.Newest(ctx)
	if err != nil {
		return nil, err
	}
	if d := roster.Datacenters.Of(b.Key); d != nil {
		return nil, writ.Errorf(writ.CodeConflict, "the roster already has this key, for the datacenter %s", d.Name).
			WithHint("start the supervisor with --dc %s, or give another one an empty --data", d.Name)
	}
	in := ledger.Registration{
		Token: b.Token, Name: b.Name, Key: b.Key, Nonce: b.Nonce, Proof: b.Proof, URL: b.URL,
		Network: limit.NetworkOf(remote(ctx)), Received: time.Now().UTC().Truncate(time.Microsecond),
	}
	if err := h.c.Ledger.AddRegistration(ctx, in); err != nil {
		return nil, err
	}
	// Registrations need no login and may use any name, so one limit for all of them bounds the log lines.
	if times, say := h.c.lines.Say("registration", time.Now()); say {
		h.c.Log.InfoContext(ctx, "supervisor asks for admission", "name", b.Name, "remote", remote(ctx), "times", times)
	}
	waiting, err := h.c.Ledger.Registrations(ctx)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(waiting, func(w ledger.Registration) bool { return w.ID() == in.ID() })
	if i >= 0 {
		in = waiting[i] // the first identical registration
	}
	failpoint.RegistrationAnswered.Begin()
	return apiserver.Register202JSONResponse(registrationView(in)), nil
}

const maxURL = 512

func checkRegistration(b *api.NewRegistration) error {
	switch {
	case !writ.ValidName(b.Name):
		return writ.Errorf(writ.CodeBadRequest, "name: %q is not a valid name", b.Name).
			WithHint("use lower-case letters, digits and hyphens")
	case len(b.Key) != ed25519.PublicKeySize:
		return writ.Errorf(writ.CodeBadRequest, "key: got %d bytes; an ed25519 public key has %d", len(b.Key),
			ed25519.PublicKeySize)
	case len(b.Nonce) != identity.NonceSize:
		return writ.Errorf(writ.CodeBadRequest, "nonce: got %d bytes, want %d", len(b.Nonce), identity.NonceSize)
	case len(b.Token) > 64 || len(b.Proof) > 128:
		return writ.Errorf(writ.CodeBadRequest, "token or proof: too long")
	case b.Token == "" && len(b.Proof) > 0 || b.Token != "" && len(b.Proof) == 0:
		return writ.Errorf(writ.CodeBadRequest, "token and proof: set both or neither")
	}
	if u, err := url.Parse(b.URL); b.URL != "" &&
		(err != nil || u.Host == "" || !strings.HasPrefix(u.Scheme, "http") || len(b.URL) > maxURL) {
		return writ.Errorf(writ.CodeBadRequest, "url: %q is not a valid address of a supervisor", b.URL)
	}
	return nil
}

func (h clusterHandlers) ListProjects(
	ctx context.Context, _ apiserver.ListProjectsRequestObject,
) (apiserver.ListProjectsResponseObject, error) {
	all, err := h.c.Ledger.Projects(ctx)
	who := access.ViewerOf(ctx)
	all = slices.DeleteFunc(all, func(p identity.Project) bool { return !who.Reads(p.ID) })
	return apiserver.ListProjects200JSONResponse{Items: api.Views(all, projectView)}, err
}
