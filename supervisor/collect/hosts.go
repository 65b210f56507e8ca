package collect

import (
	"context"

	"writ"
	"writ/internal/limit"
	"writ/supervisor/misuse"
	"writ/supervisor/nodes"
)

// hostsPerSecond limits the host reports of a node, and hostsAtOnce is their burst. Runners check their machine every
// half minute.
const (
	hostsPerSecond = 0.1
	hostsAtOnce    = 5
)

// Hosts receives the reports of nodes about their machines.
type Hosts struct {
	site Site
	rate limit.Names
}

// NewHosts returns a receiver of host reports.
func NewHosts(site Site) *Hosts {
	return &Hosts{site: site, rate: limit.Names{PerSecond: hostsPerSecond, AtOnce: hostsAtOnce}}
}

// Receive applies a host report.
func (h *Hosts) Receive(_ context.Context, node writ.NodeID, r *nodes.HostReport) {
	if r.Node != node {
		h.site.Warnings.Refused(node, "node reported the machine of another node", misuse.OfAnother(r.Node))
		h.site.Misuse.Count(node, misuse.ExtraReports, 1)
		return
	}
	if _, ok := h.rate.Reserve(string(node), 1, 0); !ok {
		h.site.Misuse.Count(node, misuse.ExtraReports, 1)
		h.site.Warnings.Refused(node, "node reports its machine too often; some reports are dropped",
			misuse.TooOften("at most %g per second are accepted", hostsPerSecond))
		return
	}
	h.site.Fleet.Machines.Describe(*r, h.site.Epoch, h.site.Now())
}
