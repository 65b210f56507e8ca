package netdev

import (
	"context"

	"writ"
	"writ/sal"
	"writ/sal/catalog"
)

func describeHost() string { return "bridges, veth pairs and taps of the kernel, rules of nftables" }

func do(ctx context.Context, d *Driver, request sal.Request) (sal.Outcome, error) {
	removes := request.Operation.Effect == catalog.Remove
	begin := enterWithRange
	if removes {
		begin = enter // removal works without the overlay
	}
	h, leave, err := begin(ctx, d)
	if err != nil {
		return sal.Outcome{}, err
	}
	defer leave()
	if removes {
		return h.networks.remove(request)
	}
	return h.networks.do(request)
}

// connect gives an owner taps, or interfaces in a namespace, and returns the file of the namespace.
func connect(
	ctx context.Context, d *Driver, owner sal.Owner, networks []writ.Ref, namespace bool,
) (path string, all []sal.Port, err error) {
	begin := enterWithRange
	if len(networks) == 0 {
		begin = enter // works without the overlay
	}
	h, leave, err := begin(ctx, d)
	if err != nil {
		return "", nil, err
	}
	defer leave()
	if all, err = h.ports.connect(owner, networks, namespace); err != nil {
		return "", nil, err
	}
	return h.namespaces.path(owner.UID), all, nil
}

func release(ctx context.Context, d *Driver, owner writ.UID) error {
	h, leave, err := enter(ctx, d)
	if err != nil {
		return err
	}
	defer leave()
	r, err := h.records.holdings.GetToRemove(sal.Request{Resource: ownerID(owner), UID: owner})
	if err != nil {
		return err
	}
	return h.ports.release(owner, r)
}

// Keep compares a network and its ports with their records, and repairs them.
func (d *Driver) Keep(ctx context.Context, resource writ.ResourceID) ([]sal.Drift, error) {
	h, leave, err := enterWithRange(ctx, d)
	if err != nil {
		return nil, err
	}
	defer leave()
	return h.keep(resource)
}

// Orphans returns links, rules and namespaces of this driver without a record.
func (d *Driver) Orphans(ctx context.Context) ([]sal.Orphan, error) {
	h, leave, err := enter(ctx, d)
	if err != nil {
		return nil, err
	}
	defer leave()
	all, err := h.orphans()
	if err != nil {
		return nil, err
	}
	return all, ctx.Err()
}

// Traffic returns the bytes that an owner received and sent through its ports since the ports were created. Both are
// zero for an owner without ports.
func (d *Driver) Traffic(ctx context.Context, owner sal.Owner) (received, sent int64, err error) {
	h, leave, err := enter(ctx, d)
	if err != nil {
		return 0, 0, err
	}
	defer leave()
	return h.traffic(owner.UID)
}

// Network returns the state of the overlay, and the packets dropped at the ports of all owners.
func (d *Driver) Network(ctx context.Context) (state writ.NodeNetwork, err error) {
	if o, ok := d.Overlay.(interface {
		Standing(ctx context.Context) (writ.Overlay, error)
	}); ok {
		overlay, err := o.Standing(ctx)
		if err != nil { // count packets in any case
			overlay.Detail = "its state is unknown: " + err.Error()
		}
		state.Overlay = &overlay
	}
	h, leave, err := enter(ctx, d)
	if err != nil {
		return state, err
	}
	defer leave()
	return state, h.countDrops(&state)
}

// enter moves the calling thread to the driver's namespace and locks the driver. The same goroutine must call leave.
func enter(ctx context.Context, d *Driver) (h *host, leave func(), err error) {
	if err := ctx.Err(); err != nil {
		return nil, nil, err
	}
	d.mu.Lock()
	back := func() {}
	if err = ctx.Err(); err == nil {
		h, back, err = enterHost(d)
	}
	if err != nil {
		d.mu.Unlock()
		return nil, nil, err
	}
	return h, func() { back(); d.mu.Unlock() }, nil
}

// enterWithRange is enter, and also reads the host's range in the overlay.
func enterWithRange(ctx context.Context, d *Driver) (h *host, leave func(), err error) {
	subnet, err := subnetOf(ctx, d.Overlay)
	if err != nil {
		return nil, nil, err
	}
	if h, leave, err = enter(ctx, d); err == nil {
		h.networks.subnet = subnet
	}
	return h, leave, err
}
