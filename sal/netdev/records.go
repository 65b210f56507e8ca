package netdev

import (
	"net/netip"
	"path/filepath"
	"slices"

	"writ"
	"writ/sal"
	"writ/sal/catalog"
)

// records are the stored states of networks and of the owners of ports.
type records struct {
	networks *sal.Records[network]
	holdings holdings
}

func recordsOf(d *Driver) records {
	return records{
		networks: &sal.Records[network]{Dir: filepath.Join(d.Dir, "networks"), Step: d.Step},
		holdings: holdings{&sal.Records[holding]{Dir: filepath.Join(d.Dir, "ports"), Step: d.Step}},
	}
}

// network is the driver's part of a network's record.
type network struct {
	Phase phase                 `json:"phase"`
	Index uint16                `json:"index"`           // NNNN of its range
	Rules []catalog.NetworkRule `json:"rules,omitempty"` // rules of the last network.allow
}

// ipv4 returns the IPv4 range of a network, or the zero value.
func ipv4(r *sal.Record[network]) netip.Prefix {
	text, _ := r.Spec["ipv4"].(string)
	prefix, _ := netip.ParsePrefix(text)
	return prefix
}

// values returns the fields of a handle to a network. host is the host's range in the overlay.
func values(host netip.Prefix, r *sal.Record[network]) map[string]any {
	v6 := rangeOf(host, r.Own.Index)
	return catalog.Values(catalog.Network{
		Identity: catalog.Identify(r.Resource, r.UID, false),
		Subnet:   v6.String(),
		Gateway:  in(v6, gatewayHost).String(),
		Bridge:   r.Resource.HostName(),
		MTU:      MTU,
		Rules:    int64(len(r.Own.Rules)),
	})
}

// holding is the driver's part of an owner's record.
type holding struct {
	Owner     writ.ResourceID `json:"owner"`
	Phase     phase           `json:"phase"`
	Namespace bool            `json:"namespace,omitempty"` // the ports are in a namespace of the owner
	IDs       uint32          `json:"ids,omitempty"`       // as in sal.Owner; the namespace belongs to these users
	Ports     []port          `json:"ports,omitempty"`
	Link      *link           `json:"link,omitempty"` // nil if the owner never published a port
}

// port is an owner's connection to a network.
type port struct {
	Network writ.ResourceID `json:"network"`
	UID     writ.UID        `json:"uid"`    // of the network
	Number  int             `json:"number"` // in the name of its device
	Host    uint32          `json:"host"`   // the last 32 bits of its IPv6 address
	IPv4    netip.Addr      `json:"ipv4,omitzero"`
}

// phase is the recorded progress of a network or holding. After a crash, it shows which parts may exist.
type phase string

const (
	making   phase = "making"   // parts of it may exist
	changing phase = "changing" // complete, but the kernel may not have the latest record yet
	ready    phase = "ready"
	deleting phase = "deleting" // parts of it may exist and must be removed
)

// kindOwner is the kind of the records of owners, which are found by UID alone.
const kindOwner writ.ResourceKind = "port"

// ownerID returns the id of an owner's record.
func ownerID(uid writ.UID) writ.ResourceID {
	return writ.ResourceID{Kind: kindOwner, Name: string(uid)}
}

// holdings are the records of owners.
type holdings struct{ *sal.Records[holding] }

// on returns the owners with a port on a network.
func (h holdings) on(network writ.UID) ([]*sal.Record[holding], error) {
	all, _, err := h.List()
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(all, func(o *sal.Record[holding]) bool {
		return !slices.ContainsFunc(o.Own.Ports, func(p port) bool { return p.UID == network })
	}), nil
}

// requireAll returns RECORD_DAMAGED if a record is damaged, because the ports on the node's networks are then unknown.
func (h holdings) requireAll() error {
	_, damaged, err := h.List()
	if err != nil || len(damaged) == 0 {
		return err
	}
	return writ.Errorf(writ.CodeRecordDamaged, "a record of ports on networks is damaged: %s: %w", damaged[0].Path,
		damaged[0].Why).
		WithHint("restart the resource that lost its ports, which writes the record again, or delete it; if no resource lost its ports, remove the file")
}
