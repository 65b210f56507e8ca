package coord

import (
	"context"

	"writ"
	"writ/coord/access"
	"writ/coord/api"
	"writ/coord/dashboard/page"
	"writ/coord/live"
	"writ/identity"
	"writ/ledger"
)

// nodesNow is a ledger that lists nodes with the live state from their datacenters.
type nodesNow struct {
	ledger.Ledger
	live *live.View
}

func (l nodesNow) Nodes(
	ctx context.Context, filter ledger.NodeFilter, page ledger.Page,
) (ledger.List[writ.Node], error) {
	return l.live.Nodes(ctx, filter, page)
}

// pageView provides the live state of datacenters to the dashboard.
type pageView struct {
	*live.View
	c *Coordinator
}

func (v pageView) Why(ctx context.Context, runs ...ledger.Run) (map[writ.RunID]writ.Reason, error) {
	return v.c.explain.Why(ctx, runs...)
}

func (v pageView) Certificate(ctx context.Context, signed []byte) (*identity.Certificate, error) {
	return v.c.rosters.CertificateOf(ctx, signed)
}

func (v pageView) Loads(ctx context.Context, resources []writ.Resource) ([]api.ListedResource, error) {
	return live.Listed(ctx, v.View, resources, true)
}

// News returns a channel that is closed when the ledger stores a row after the call, or when a run waits for another
// reason.
func (v pageView) News() <-chan struct{} { return v.c.news.Next() }

// pageReader returns the reader of a request to the dashboard, with the reader's rights.
func (c *Coordinator) pageReader(ctx context.Context) page.Reader {
	who := access.ViewerOf(ctx)
	reader := page.Reader{All: who.All, Projects: who.Projects}
	if login := who.Login(); login != nil {
		reader.Name, reader.Until, reader.May = login.Signer, login.Until, c.gate.May(login)
	}
	return reader
}
