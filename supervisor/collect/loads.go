package collect

import (
	"context"

	"writ"
	"writ/internal/limit"
	"writ/supervisor/loads"
	"writ/supervisor/misuse"
	"writ/supervisor/nodes"
)

// loadsPerSecond limits the load reports of a node, and loadsAtOnce is their burst. Runners send a report every half
// minute.
const (
	loadsPerSecond = 0.1
	loadsAtOnce    = 5
)

// Loads receives the reports of nodes about the load of their resources.
type Loads struct {
	site Site
	book *loads.Book
	rate limit.Names
}

// NewLoads returns a receiver of load reports.
func NewLoads(site Site, book *loads.Book) *Loads {
	return &Loads{site: site, book: book, rate: limit.Names{PerSecond: loadsPerSecond, AtOnce: loadsAtOnce}}
}

// Receive applies a load report.
func (l *Loads) Receive(_ context.Context, node writ.NodeID, r *nodes.LoadReport) {
	if r.Node != node {
		l.site.Warnings.Refused(node, "node reported the load of another node", misuse.OfAnother(r.Node))
		l.site.Misuse.Count(node, misuse.ExtraReports, 1)
		return
	}
	if _, ok := l.rate.Reserve(string(node), 1, 0); !ok {
		l.site.Misuse.Count(node, misuse.ExtraReports, 1)
		l.site.Warnings.Refused(node, "node reports its load too often; some reports are dropped",
			misuse.TooOften("at most %g per second are accepted", loadsPerSecond))
		return
	}
	l.book.Apply(*r, l.site.Epoch, l.site.Now())
}
