package netdev

import (
	"fmt"
	"net/netip"

	"writ"
	"writ/sal"
)

// requireFreeRange returns RESOURCE_CONFLICT if the IPv4 range of a new network is in use. hidden holds the ranges of
// networks with damaged records.
func (n *networks) requireFreeRange(r *sal.Record[network], others []*sal.Record[network], hidden []netip.Prefix) error {
	want := ipv4(r)
	if !want.IsValid() {
		return nil
	}
	taken := func(by string, p netip.Prefix) error {
		return writ.Errorf(writ.CodeResourceConflict, "%s cannot use %s: %s is %s on this node", r.Resource, want, p,
			by).
			WithHint("use another range")
	}
	for _, other := range others {
		if p := ipv4(other); p.IsValid() && p.Overlaps(want) {
			return taken(holderOf(other.Resource, r.Resource.Project), p)
		}
	}
	for _, p := range hidden {
		if p.Overlaps(want) {
			return taken("used by a network with a damaged record", p)
		}
	}
	w, err := overlap(n.links.kernel, want)
	if err != nil {
		return err
	}
	if w != nil {
		return taken(w.how, w.to)
	}
	return n.requireFreeOfPeers(r, want)
}

// holderOf describes the user of a range to the project `asks`. It does not reveal names in other projects.
func holderOf(r writ.ResourceID, asks writ.ProjectID) string {
	if r.Project != asks {
		return "used by a network of another project"
	}
	return "used by " + r.String()
}

// reportOverlap adds a drift if a route or address of the node overlaps with the IPv4 range of a network. Such a route
// or address was added after the network.
func (n *networks) reportOverlap(r *sal.Record[network]) error {
	v4 := ipv4(r)
	if !v4.IsValid() {
		return nil
	}
	w, err := overlap(n.links.kernel, v4)
	if err != nil || w == nil {
		return err
	}
	n.drift = append(n.drift,
		sal.Drift{What: fmt.Sprintf("its range %s overlaps with %s, which is %s on this node", v4, w.to, w.how)})
	return nil
}
