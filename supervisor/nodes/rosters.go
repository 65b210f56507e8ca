package nodes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"writ"
	"writ/internal/clip"
	"writ/internal/failpoint"
	"writ/internal/httpguard"
	"writ/internal/pagecache"
)

// Limits of the memory and time that unknown clients can use for pages of rosters.
const (
	maxPages      = 24 << 20         // bytes of all pages
	pagePatience  = 5 * time.Second  // how long a caller waits for room
	pageHold      = 2 * time.Second  // how long a caller may keep a page even if other callers wait
	pageWriteTime = 30 * time.Second // for one page
)

// rosterPages answers requests for rosters. All callers share the encoded pages.
type rosterPages struct {
	backend Backend
	members Members
	cache   pagecache.Cache
}

func newRosterPages(backend Backend, members Members) *rosterPages {
	return &rosterPages{
		backend: backend, members: members,
		cache: pagecache.Cache{
			MaxBytes: maxPages, Patience: pagePatience, MinHold: pageHold, BeforeWait: httpguard.EndTurn,
		},
	}
}

// page returns the page of rosters after a version as JSON, for a remote address.
func (p *rosterPages) page(ctx context.Context, remote string, after int) (*pagecache.Lease, error) {
	start, newest := after, 0
	if p.members != nil {
		start, newest = p.members.RosterPage(after)
	}
	lease, err := p.cache.Get(ctx, remote, fmt.Sprintf("%d/%d", start, newest), func(ctx context.Context) ([]byte, error) {
		links, err := p.backend.Rosters(ctx, start) // the newest version may have increased in the meantime
		if err != nil {
			return nil, err
		}
		return json.Marshal(links)
	})
	if errors.Is(err, pagecache.ErrBusy) {
		return nil, writ.Errorf(writ.CodeRateLimited, "too many clients read older versions of the roster").
			WithHint("try again in a few seconds")
	}
	return lease, err
}

func (h *handler) rosters(w http.ResponseWriter, r *http.Request) {
	after := 0
	if text := r.URL.Query().Get("after"); text != "" {
		var err error
		if after, err = strconv.Atoi(text); err != nil || after < 0 {
			h.fail(w, r, writ.Errorf(writ.CodeBadRequest, "after=%q is not a version of the roster", clip.Text(text, 80)))
			return
		}
	}
	page, err := h.pages.page(r.Context(), r.RemoteAddr, after)
	if err != nil {
		h.fail(w, r, err)
		return
	}
	defer page.Release()
	failpoint.RostersAnswered.Begin()
	control := http.NewResponseController(w)
	_ = control.SetWriteDeadline(time.Now().Add(pageWriteTime))
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Content-Type", "application/json")
	if page.Send(w, control) == nil {
		_ = control.SetWriteDeadline(time.Time{})
	}
}
