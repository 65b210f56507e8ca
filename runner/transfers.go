package runner

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"net"
	"time"

	"writ"
	"writ/identity/envelope"
	"writ/runner/hosted"
	"writ/runner/transfer"
	"writ/sal"
)

// Transfers configures how a node serves archives of its resources to other nodes.
type Transfers struct {
	Listener net.Listener // closed by the runner
	Address  string       // reachable by other nodes, "host:port"
	Rate     int64        // limit of all transfers together in bytes per second; 0 means unlimited
}

// holdFor limits how long a transfer waits for the lock of a resource before answering RESOURCE_BUSY. The other node
// then retries.
const holdFor = 20 * time.Second

// giver serves archives of this node's resources to other nodes.
type giver struct {
	*base
	*Transfers // nil if other nodes cannot fetch from this node
	locks      *hosted.Locks
	drivers    map[string]sal.Driver
}

// run serves archives to other nodes until ctx ends, if Transfers is set.
func (n *giver) run(ctx context.Context) {
	if n.Transfers == nil {
		return
	}
	g := &transfer.Giver{
		Node: n.node, Cluster: n.member.Roster().Cluster, Datacenter: n.member.Datacenter(), Key: n.member.PrivateKey(),
		Keys: n.supervisorKey,
		Hold: n.hold, Shipper: n.shipper, Rate: n.Transfers.Rate, Now: n.now, Log: n.log,
	}
	if err := g.Serve(ctx, n.Transfers.Listener); err != nil {
		n.log.ErrorContext(ctx, "serve archives to other nodes", "err", err)
	}
}

// hold locks a resource for a transfer, in the same queue as jobs.
func (n *giver) hold(ctx context.Context, s sal.Shipment) (done func(), err error) {
	ctx, stop := context.WithTimeoutCause(ctx, holdFor, errStartBy)
	defer stop()
	lock := n.locks.Request(s.Resource, hosted.Holder{Transfer: s.Transfer})
	err = lock.Wait(ctx)
	if err == nil {
		return lock.Release, nil
	}
	before := lock.Holder()
	lock.Release()
	if errors.Is(err, errStartBy) {
		err = writ.Errorf(writ.CodeResourceBusy, "%s", before.Works(s.Resource))
	}
	return nil, err
}

func (n *giver) shipper(kind writ.ResourceKind) sal.Shipper {
	s, _ := n.drivers[string(kind)].(sal.Shipper)
	return s
}

// origin returns the node that a job copies from, or nil if the job copies from no other node.
func (j *jobs) origin(ctx context.Context, w *work) (sal.Origin, error) {
	if len(w.job.Grant) == 0 {
		return nil, nil
	}
	all, _, err := envelope.Open[writ.TransferGrant](envelope.TransferGrant, w.job.Grant, j.supervisorKey)
	if err != nil {
		return nil, fmt.Errorf("open the transfer grant of the job: %w", err)
	}
	if to := all[0]; len(all) != 1 || to.To != j.node || !j.member.PublicKey().Equal(ed25519.PublicKey(to.ToKey)) {
		return nil, writ.Errorf(writ.CodeSignatureInvalid, "the transfer grant of the job is for another node")
	}
	return &transfer.Fetcher{
		Key: j.member.PrivateKey(), Grant: all[0], Signed: w.job.Grant, Allow: j.peers, Log: j.log,
		Progress: j.acts.progress(ctx, w),
	}, nil
}
