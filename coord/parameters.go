package coord

import (
	"context"
	"encoding/hex"
	"slices"

	"writ"
	"writ/coord/access"
	"writ/coord/api"
	"writ/identity"
	"writ/internal/meant"
	"writ/ledger"
)

// pageOf validates the parameters of a page.
func pageOf(limit *api.PageLimit, cursor *api.PageCursor) (ledger.Page, error) {
	page := ledger.Page{Limit: ledger.DefaultLimit, Cursor: api.Value(cursor)}
	if limit != nil {
		page.Limit = *limit
	}
	if page.Limit < 1 || page.Limit > ledger.MaxLimit {
		return ledger.Page{}, writ.Errorf(writ.CodeBadRequest, "limit is %d; a page has 1 to %d items", page.Limit,
			ledger.MaxLimit)
	}
	return page, nil
}

// selection is the part of a list that a request selects: a page, a datacenter ("" for all), and readable projects.
type selection struct {
	page       ledger.Page
	datacenter writ.DatacenterID
	projects   []writ.ProjectID
}

func (h base) selected(
	ctx context.Context, limit *api.PageLimit, cursor *api.PageCursor, datacenter, project *string,
) (s selection, err error) {
	if s.page, err = pageOf(limit, cursor); err != nil {
		return s, err
	}
	if s.datacenter, err = h.datacenter(ctx, api.Value(datacenter)); err != nil {
		return s, err
	}
	s.projects, err = h.projects(ctx, api.Value(project))
	return s, err
}

// datacenter returns the id of the datacenter with this id or name, and "" for "". It does not check whether an id
// exists.
func (h base) datacenter(ctx context.Context, text string) (writ.DatacenterID, error) {
	if text == "" || writ.ValidUUID(text) {
		return writ.DatacenterID(text), nil
	}
	roster, err := h.c.rosters.Newest(ctx)
	if err != nil {
		return "", err
	}
	if d := roster.Datacenters.Named(text); d != nil {
		return d.ID, nil
	}
	return "", writ.Errorf(writ.CodeDatacenterUnknown, "unknown datacenter %q", text).
		WithHint("%s",
			meant.Among(text, roster.Datacenters, func(d identity.Datacenter) string { return d.Name },
				"`writ dc list` lists the datacenters"))
}

// projects returns the projects that a request selects. text is the id or name of a readable project, or "" for all
// readable projects. An empty result means all projects; only a viewer of all projects gets it.
func (h base) projects(ctx context.Context, text string) ([]writ.ProjectID, error) {
	who := access.ViewerOf(ctx)
	switch {
	case text == "" && who.All:
		return nil, nil
	case text == "" && len(who.Projects) == 0:
		return nil, access.LoginRequired("cannot list: the reader is unknown")
	case text == "":
		return who.Projects, nil
	case writ.ValidUUID(text):
		if !who.Reads(writ.ProjectID(text)) {
			return nil, noProject(text, nil)
		}
		return []writ.ProjectID{writ.ProjectID(text)}, nil
	}
	roster, err := h.c.rosters.Newest(ctx)
	if err != nil {
		return nil, err
	}
	readable := slices.DeleteFunc(roster.Projects.Named(text), func(p identity.Project) bool { return !who.Reads(p.ID) })
	switch len(readable) {
	case 1:
		return []writ.ProjectID{readable[0].ID}, nil
	case 0:
		return nil, noProject(text,
			slices.DeleteFunc(slices.Clone(roster.Projects), func(p identity.Project) bool { return !who.Reads(p.ID) }))
	default:
		return nil, writ.Errorf(writ.CodeBadRequest, "%d projects have the name %q", len(readable), text).
			WithHint("use the id; `writ project list` shows it")
	}
}

// noProject returns the error for an unknown project, or for a project that the viewer may not read. It suggests a
// readable project.
func noProject(text string, readable []identity.Project) error {
	return writ.Errorf(writ.CodeNotFound, "unknown project %q", text).
		WithHint("%s",
			meant.Among(text, readable, func(p identity.Project) string { return p.Name }, "`writ project list` lists the projects"))
}

// checkAfter rejects a negative item number. 0 precedes the first item.
func checkAfter[N int | int64](after N) error {
	if after < 0 {
		return writ.Errorf(writ.CodeBadRequest, "after is %d; the first item is number 1", after)
	}
	return nil
}

// nonceOf decodes the nonce of a client.
func nonceOf(digits string) ([]byte, error) {
	nonce, err := hex.DecodeString(digits)
	if err != nil || len(nonce) != writ.ClientNonce {
		return nil, writ.Errorf(writ.CodeBadRequest, "nonce: %d hex digits are needed", 2*writ.ClientNonce)
	}
	return nonce, nil
}
