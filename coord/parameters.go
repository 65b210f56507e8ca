package coord

import (
	"context"
	"encoding/hex"
	"slices"

	"writ"
	"writ/coord/api"
	"writ/identity"
	"writ/internal/meant"
	"writ/ledger"
)

// pageOf checks a page's parameters.
func pageOf(limit *api.PageLimit, cursor *api.PageCursor) (ledger.Page, error) {
	page := ledger.Page{Limit: ledger.DefaultLimit, Cursor: api.Value(cursor)}
	if limit != nil {
		page.Limit = *limit
	}
	if page.Limit < 1 || page.Limit > ledger.MaxLimit {
		return ledger.Page{}, writ.Errorf(writ.CodeBadRequest, "limit is %d; a page has 1 to %d items", page.Limit, ledger.MaxLimit)
	}
	return page, nil
}

// selection is which part of a list a request asks for: a page of what is in a datacenter, "" for all, and of projects that the reader may see.
type selection struct {
	page       ledger.Page
	datacenter writ.DatacenterID
	projects   []writ.ProjectID
}

func (h handlers) selected(ctx context.Context, limit *api.PageLimit, cursor *api.PageCursor, datacenter, project *string) (s selection, err error) {
	if s.page, err = pageOf(limit, cursor); err != nil {
		return s, err
	}
	if s.datacenter, err = h.datacenter(ctx, api.Value(datacenter)); err != nil {
		return s, err
	}
	s.projects, err = h.projects(ctx, api.Value(project))
	return s, err
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
	return "", writ.Errorf(writ.CodeDatacenterUnknown, "there is no datacenter %q", text).
		WithHint("%s", meant.Among(text, roster.Datacenters, func(d identity.Datacenter) string { return d.Name }, "`writ dc list` shows them"))
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
			return nil, noProject(text, nil)
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
		return nil, noProject(text, slices.DeleteFunc(slices.Clone(roster.Projects), func(p identity.Project) bool { return !who.reads(p.ID) }))
	default:
		return nil, writ.Errorf(writ.CodeBadRequest, "%d projects have the name %q", len(readable), text).WithHint("use the id; `writ project list` shows it")
	}
}

// noProject is the error about an unknown project, or one that the reader must not know of. It suggests a project that the reader may read.
func noProject(text string, readable []identity.Project) error {
	return writ.Errorf(writ.CodeNotFound, "there is no project %q", text).
		WithHint("%s", meant.Among(text, readable, func(p identity.Project) string { return p.Name }, "`writ project list` shows them"))
}

// checkAfter refuses the number of an item that no list has. What comes after the item 0 is the whole list.
func checkAfter[N int | int64](after N) error {
	if after < 0 {
		return writ.Errorf(writ.CodeBadRequest, "after is %d; the first item is number 1", after)
	}
	return nil
}

// nonceOf reads the nonce of a client.
func nonceOf(digits string) ([]byte, error) {
	nonce, err := hex.DecodeString(digits)
	if err != nil || len(nonce) != writ.ClientNonce {
		return nil, writ.Errorf(writ.CodeBadRequest, "nonce: %d hex digits are needed", 2*writ.ClientNonce)
	}
	return nonce, nil
}
