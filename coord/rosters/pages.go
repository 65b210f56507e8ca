package rosters

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"writ"
	"writ/coord/api"
	"writ/identity"
	"writ/internal/httpguard"
	"writ/internal/pagecache"
)

// Limits of the memory and time that unauthenticated clients can use for pages of rosters.
const (
	MaxPages     = 24 << 20        // bytes of all pages
	pagePatience = 5 * time.Second // wait of a caller for memory
	pageHold     = 2 * time.Second // minimum time for a slow caller while other callers wait
)

// Page is a response to GET /v1/roster that callers share.
type Page struct{ *pagecache.Lease }

// VisitGetRosterResponse implements apiserver.GetRosterResponseObject.
func (p Page) VisitGetRosterResponse(w http.ResponseWriter) error {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	return p.Send(w, http.NewResponseController(w))
}

// Pages creates and caches the pages of rosters.
type Pages struct {
	rosters *Store
	cache   *pagecache.Cache
}

func newPages(rosters *Store) *Pages {
	return &Pages{rosters, &pagecache.Cache{
		MaxBytes: MaxPages, Patience: pagePatience, MinHold: pageHold, BeforeWait: httpguard.EndTurn,
	}}
}

// Bytes returns the size of all pages in memory, at most MaxPages.
func (p *Pages) Bytes() int { return p.cache.Bytes() }

// After returns the page of links that lead from a version towards the newest roster. caller is the remote address that
// the memory of the page is charged to.
func (p *Pages) After(ctx context.Context, caller string, after int) (Page, error) {
	newest, err := p.rosters.Newest(ctx)
	if err != nil {
		return Page{}, err
	}
	start := newest.Chain().PageStart(after)
	return p.page(ctx, caller, fmt.Sprintf("%d/%d", start, newest.Version), newest,
		func(ctx context.Context) ([][]byte, error) {
			return newest.Chain().Path(start, textOf(ctx, p.rosters.Ledger))
		})
}

// Newest returns the page with the newest roster alone.
func (p *Pages) Newest(ctx context.Context, caller string) (Page, error) {
	newest, err := p.rosters.Newest(ctx)
	if err != nil {
		return Page{}, err
	}
	return p.page(ctx, caller, fmt.Sprintf("newest/%d", newest.Version), newest,
		func(ctx context.Context) ([][]byte, error) {
			signed, err := p.rosters.Ledger.Roster(ctx, newest.Version)
			return [][]byte{signed}, err
		})
}

// page returns the page of a key. If the page is not cached, it is created from the result of links.
func (p *Pages) page(
	ctx context.Context, caller, key string, newest *identity.Roster, links func(context.Context) ([][]byte, error),
) (Page, error) {
	lease, err := p.cache.Get(ctx, caller, key, func(ctx context.Context) ([]byte, error) {
		signed, err := links(ctx)
		if err != nil {
			return nil, err
		}
		return json.Marshal(api.Rosters{
			Cluster: newest.Cluster, Version: newest.Version, Expires: newest.Expires, Signed: signed,
		})
	})
	if errors.Is(err, pagecache.ErrBusy) {
		err = writ.Errorf(writ.CodeRateLimited, "too many clients read older versions of the roster").
			WithHint("try again in a few seconds")
	}
	if err != nil {
		return Page{}, err
	}
	context.AfterFunc(ctx, lease.Release) // also if the response is never written
	return Page{lease}, nil
}
