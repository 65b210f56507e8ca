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
	MaxPages     = 24 << 20 // bytes of all pages
	pagePatience = 5 * time.Second
	pageHold     = 2 * time.Second // for a caller that reads slowly while others wait
)

// Page is a response to GET /v1/roster that callers share.
type Page struct{ *pagecache.Lease }

// VisitGetRosterResponse implements apiserver.GetRosterResponseObject.
func (p Page) VisitGetRosterResponse(w http.ResponseWriter) error {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	return p.Send(w, http.NewResponseController(w))
}

func newPages() *pagecache.Cache {
	return &pagecache.Cache{
		MaxBytes: MaxPages, Patience: pagePatience, MinHold: pageHold, BeforeWait: httpguard.EndTurn,
	}
}

// PageBytes returns the size of all pages in memory, at most MaxPages.
func (s *Store) PageBytes() int { return s.pages.Bytes() }

// PageAfter returns the page of links that lead from a version towards the newest roster. caller is the remote address
// that pays for it.
func (s *Store) PageAfter(ctx context.Context, caller string, after int) (Page, error) {
	newest, err := s.Newest(ctx)
	if err != nil {
		return Page{}, err
	}
	start := newest.Chain().PageStart(after)
	return s.page(ctx, caller, fmt.Sprintf("%d/%d", start, newest.Version), newest,
		func(ctx context.Context) ([][]byte, error) {
			return newest.Chain().Path(start, textOf(ctx, s.Ledger))
		})
}

// NewestPage returns the page with the newest roster alone.
func (s *Store) NewestPage(ctx context.Context, caller string) (Page, error) {
	newest, err := s.Newest(ctx)
	if err != nil {
		return Page{}, err
	}
	return s.page(ctx, caller, fmt.Sprintf("newest/%d", newest.Version), newest,
		func(ctx context.Context) ([][]byte, error) {
			signed, err := s.Ledger.Roster(ctx, newest.Version)
			return [][]byte{signed}, err
		})
}

// page returns the page of a key, and calls links if the page is not cached.
func (s *Store) page(
	ctx context.Context, caller, key string, newest *identity.Roster, links func(context.Context) ([][]byte, error),
) (Page, error) {
	lease, err := s.pages.Get(ctx, caller, key, func(ctx context.Context) ([]byte, error) {
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
