package coord

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
	"writ/internal/pagecache"
)

// Limits of the memory and time that unauthenticated clients can use for pages of rosters.
const (
	maxRosterPages = 24 << 20 // bytes of all pages
	pagePatience   = 5 * time.Second
	pageHold       = 2 * time.Second // for a caller that reads slowly while others wait
)

// rosterPage is a response to GET /v1/roster that callers share.
type rosterPage struct{ *pagecache.Lease }

// VisitGetRosterResponse implements api.GetRosterResponseObject.
func (p rosterPage) VisitGetRosterResponse(w http.ResponseWriter) error {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	return p.Send(w, http.NewResponseController(w))
}

func newRosterPages() *pagecache.Cache {
	return &pagecache.Cache{MaxBytes: maxRosterPages, Patience: pagePatience, MinHold: pageHold}
}

// rosterPage returns the page of links that lead from a version towards the newest roster.
func (c *Coordinator) rosterPage(ctx context.Context, newest *identity.Roster, after int) (rosterPage, error) {
	start := newest.PageStart(after)
	return c.sharedPage(ctx, fmt.Sprintf("%d/%d", start, newest.Version), newest, func(ctx context.Context) ([][]byte, error) {
		return newest.Path(start, rosterText(ctx, c.Ledger))
	})
}

// newestPage returns the page with the newest roster alone.
func (c *Coordinator) newestPage(ctx context.Context, newest *identity.Roster) (rosterPage, error) {
	return c.sharedPage(ctx, fmt.Sprintf("newest/%d", newest.Version), newest, func(ctx context.Context) ([][]byte, error) {
		signed, err := c.Ledger.Roster(ctx, newest.Version)
		return [][]byte{signed}, err
	})
}

// sharedPage returns the page of a key, and calls links if the page is not cached.
func (c *Coordinator) sharedPage(ctx context.Context, key string, newest *identity.Roster, links func(context.Context) ([][]byte, error)) (rosterPage, error) {
	lease, err := c.rosters.pages.Get(ctx, askedOf(ctx).remote, key, func(ctx context.Context) ([]byte, error) {
		signed, err := links(ctx)
		if err != nil {
			return nil, err
		}
		return json.Marshal(api.Rosters{Cluster: newest.Cluster, Version: newest.Version, Expires: newest.Expires, Signed: signed})
	})
	if errors.Is(err, pagecache.ErrBusy) {
		err = writ.Errorf(writ.CodeRateLimited, "too many clients read older versions of the roster").WithHint("try again in a few seconds")
	}
	if err != nil {
		return rosterPage{}, err
	}
	context.AfterFunc(ctx, lease.Release) // also if the response is never written
	return rosterPage{lease}, nil
}
