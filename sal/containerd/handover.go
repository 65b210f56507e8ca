package containerd

import (
	"context"
	"fmt"
	"net/netip"
	"slices"

	"writ"
	"writ/sal"
	"writ/sal/catalog"
)

// A replacement of a container is a handover if all of these conditions hold: both containers publish ports; the new
// container has a health check that ends soon enough (Health.AllowsHandover); neither container writes to a volume or
// has a device. In a handover, the old container runs until the new container is healthy.
// The new container has its own network namespace, so it has other addresses on networks. The published ports move in
// one transaction of the packet filter. The old container ends when it has no open connections, or after drainLimit. A
// failure before the move leaves the old container unchanged.
//
// Both containers run at the same time, so the node needs memory for both. The supervisor does not reserve the
// additional memory.

// attachment holds the network properties of a container.
type attachment struct {
	// Side is 0 or 1. A container and its replacement by handover have different sides, and therefore different network
	// namespaces.
	Side      int      `json:"side,omitempty"`
	Namespace string   `json:"namespace,omitempty"` // file of its network namespace
	Addresses []string `json:"addresses,omitempty"`
	// IPv4 contains the addresses on networks with IPv4. After an upgrade from a version without this field, it is empty
	// until the next start.
	IPv4 []string `json:"ipv4,omitempty"`
	// Nameservers are for the container's /etc/resolv.conf. If empty, the container keeps the file of its image.
	Nameservers []netip.Addr `json:"nameservers,omitempty"`
	// Published are its ports on the node.
	Published []catalog.Published `json:"published,omitempty"`
}

// handsOver reports whether an unfinished replacement is a handover.
func (o *own) handsOver() bool { return o.Replaced != nil && o.Replaced.Runs }

// isBeside reports whether a new container waits for the ports of the container that it replaces.
func isBeside(r *record) bool {
	return r.Own.handsOver() && (r.Own.Phase == replacing || r.Own.Phase == checking)
}

// ownerOf returns the current container as the owner of its network namespace.
func ownerOf(r *record) sal.Owner { return ownerOn(r, r.Own.Side) }

// otherOwner returns the owner of the other side.
func otherOwner(r *record) sal.Owner { return ownerOn(r, 1-r.Own.Side) }

func ownerOn(r *record, side int) sal.Owner {
	return sal.Owner{Resource: r.Resource, UID: uidOn(r.UID, side), IDs: r.Own.IDs}
}

// uidOn returns the UID that identifies a side of a container to the network driver.
func uidOn(uid writ.UID, side int) writ.UID {
	if side == 0 {
		return uid
	}
	return writ.UID(writ.UUIDOf(fmt.Appendf(nil, "side %d of container %s", side, uid)))
}

// ownersOf returns the owners that may have a network namespace.
func ownersOf(r *record) []sal.Owner {
	if r.Own.Side == 0 && !r.Own.handsOver() && !r.Lost {
		return []sal.Owner{ownerOn(r, 0)}
	}
	return []sal.Owner{ownerOn(r, 0), ownerOn(r, 1)}
}

// canHandOver reports whether a container can be replaced by a handover. The caller has checked that the new container
// has a health check.
func canHandOver(old, next *catalog.ContainerCreate) bool {
	writes := func(m catalog.Mount) bool { return !m.ReadOnly }
	return len(old.Publish) > 0 && len(next.Publish) > 0 && len(old.Devices) == 0 && len(next.Devices) == 0 &&
		next.Health.AllowsHandover() &&
		!slices.ContainsFunc(slices.Concat(old.Volumes, next.Volumes), writes)
}

// takePorts moves the published ports of the replaced container to the new container.
func takePorts(ctx context.Context, j *job, r *record) error {
	args, err := argsOf(r)
	if err != nil {
		return err
	}
	j.Step.step("move the ports to the new container")
	r.Own.Published, err = movePorts(ctx, j, otherOwner(r), ownerOf(r), args.Publish)
	return err
}

// returnPorts undoes takePorts, even if takePorts was interrupted.
func returnPorts(ctx context.Context, j *job, r *record) error {
	args, err := decode(r.Operation, r.Own.Beside)
	if err != nil {
		return err
	}
	j.Step.step("move the ports to the replaced container")
	_, err = movePorts(ctx, j, ownerOf(r), otherOwner(r), args.Publish)
	return err
}

func movePorts(
	ctx context.Context, j *job, from, to sal.Owner, ports []catalog.Publish,
) ([]catalog.Published, error) {
	publishing, ok := j.Networks.(sal.Publishing)
	if !ok { // the runner was restarted without networks
		return nil, writ.Errorf(writ.CodeDriverMissing, "this node cannot publish ports of containers")
	}
	return publishing.Publisher().Move(ctx, from, to, ports)
}

// dropOther discards the container that the current one replaces, and after a handover its network namespace.
func dropOther(ctx context.Context, j *job, r *record) error {
	if r.Own.Other == "" {
		return nil
	}
	if err := j.discard(ctx, r, r.Own.Other, j.graceOf(r)); err != nil {
		return err
	}
	return releaseOther(ctx, j, r)
}

// releaseOther removes the network namespace of the other side of a handover.
func releaseOther(ctx context.Context, j *job, r *record) error {
	if !r.Own.handsOver() || j.Networks == nil {
		return nil
	}
	j.Step.step("release the other network namespace")
	return j.Networks.Release(ctx, otherOwner(r))
}
