// Package dashboard serves a coordinator's web pages for operators: running and waiting work, its location, and
// failures. It reads the ledger and queries the datacenters. It changes no state, and its only form with an effect is
// the logout. It verifies no signatures: signed texts are shown as text. The pages are plain HTML that works without
// scripts; with scripts, a page is updated as the ledger changes.
package dashboard

import (
	"context"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"github.com/go-chi/chi/v5"

	"writ/coord/dashboard/nodes"
	"writ/coord/dashboard/page"
	"writ/coord/dashboard/resources"
	"writ/coord/dashboard/runs"
	"writ/coord/dashboard/snapshot"
	"writ/identity/expiring"
)

// Dashboard serves the pages of one coordinator. Set its fields, then call Register, which starts no goroutines. Run
// samples the queues for their charts.
type Dashboard struct {
	Ledger   snapshot.Ledger   // required
	LiveView snapshot.LiveView // required
	Log      *slog.Logger      // required
	// Stopping is closed when the coordinator stops, which ends the streams. It may be nil.
	Stopping <-chan struct{}
	// Reader returns the reader of an admitted request. Required.
	Reader func(ctx context.Context) page.Reader
	// Notice returns the banner at the top of every page, "" for none. It may be nil.
	Notice func(ctx context.Context) string
	// Still returns an error if the sender of a request has lost the right to read. It is called before each frame; it
	// may be nil.
	Still func(ctx context.Context) error
	// Ends lists the expiring items, such as roles and certificates. It may be nil.
	Ends func(ctx context.Context) []expiring.Item
	// LedgerDown reports whether the ledger was unusable at its last check. It may be nil.
	LedgerDown func() bool
	// MaxStreams limits the open streams. Required.
	MaxStreams int

	server page.Server
	source snapshot.Source
}

// Register adds the pages to routes, and the streams and files that they need below /live/ and /static/. It is called
// once. The router answers all methods other than GET.
func (d *Dashboard) Register(routes chi.Router) {
	d.source.Ledger, d.source.LiveView, d.source.Log, d.source.Reader = d.Ledger, d.LiveView, d.Log, d.Reader
	d.server.Events, d.server.News = d.Ledger.EventRange, d.LiveView.News
	d.server.Log, d.server.Stopping, d.server.Reader = d.Log, d.Stopping, d.Reader
	d.server.Notice, d.server.Still, d.server.MaxStreams = d.Notice, d.Still, d.MaxStreams
	d.server.Register(routes, slices.Concat(
		(&runs.ListPages{Source: &d.source, Ends: d.Ends, LedgerDown: d.LedgerDown}).Routes(),
		(&runs.RunPages{Source: &d.source}).Routes(),
		(&nodes.Pages{Source: &d.source}).Routes(),
		(&resources.Pages{Source: &d.source}).Routes(),
	)...)
}

// Refuse answers a browser that was not admitted, with a page without any detail of the cluster.
func (d *Dashboard) Refuse(w http.ResponseWriter, r *http.Request, err error) {
	d.server.Refuse(w, r, err)
}

// Run samples the queues for their charts until ctx ends. Without it, pages have no history.
func (d *Dashboard) Run(ctx context.Context) error { return d.source.Run(ctx) }

// Sample records the current depths of the queues.
func (d *Dashboard) Sample(ctx context.Context, now time.Time) { d.source.Sample(ctx, now) }
