package netdev

import (
	"slices"

	"writ/sal"
)

// orphans returns links, rules and namespaces of this driver without a record.
func (h *host) orphans() ([]sal.Orphan, error) {
	known, err := h.inventory()
	if err != nil {
		return nil, err
	}
	links, err := h.links.orphans(known.devices)
	if err != nil {
		return nil, failed("list links", err)
	}
	rules, err := h.firewall.Orphans(known.devices)
	if err != nil {
		return nil, failed("list rules", err)
	}
	namespaces, err := h.namespaces.orphans(known.namespaces)
	if err != nil {
		return nil, failed("list namespaces", err)
	}
	return slices.Concat(sal.DamagedOrphans(known.damaged), links, rules, namespaces), nil
}

// inventory holds the names that records refer to, including damaged records.
type inventory struct {
	devices, namespaces map[string]bool
	damaged             []sal.Damaged
}

func (h *host) inventory() (*inventory, error) {
	known := &inventory{devices: map[string]bool{}, namespaces: map[string]bool{}}
	networks, damaged, err := h.records.networks.List()
	if err != nil {
		return nil, err
	}
	for _, r := range networks {
		known.devices[r.Resource.HostName()] = true
	}
	for _, r := range damaged {
		known.devices[r.HostName] = true
	}
	owners, unknown, err := h.records.holdings.List()
	if err != nil {
		return nil, err
	}
	for _, o := range unknown {
		known.namespaces[o.HostName] = true
		names, err := h.ports.devices(o.HostName)
		if err != nil {
			return nil, failed("list links and rules", err)
		}
		for _, name := range names {
			known.devices[name] = true
		}
	}
	if len(unknown) > 0 { // a damaged record may contain a claim to a shared port
		ports, err := h.firewall.SharedPorts()
		if err != nil {
			return nil, failed("list shared ports", err)
		}
		for _, port := range ports {
			known.devices[port.Name()] = true
		}
	}
	for _, o := range owners {
		known.namespaces[o.Resource.HostName()] = o.Own.Namespace
		for _, port := range sharedPorts(o.Own.Link) {
			known.devices[port.Name()] = true
		}
		for _, name := range o.Own.devices(o.UID) {
			known.devices[name] = true
		}
	}
	known.damaged = slices.Concat(damaged, unknown)
	return known, nil
}
