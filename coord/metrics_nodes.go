package coord

import (
	"context"

	"time"

	"writ"
	"writ/internal/metrics"
	"writ/ledger"
	"writ/supervisor/link"
)

// sendDatacenters sends the metrics of datacenters and of the last reports of their nodes. A counter of a node starts
// at zero again when the counting runner, overlay daemon or port is replaced.
func sendDatacenters(ctx context.Context, c *Coordinator, to *metrics.Scrape) {
	connected := to.Gauge("writ_datacenter_connected", "Whether the datacenter's supervisor is connected.",
		"datacenter", "region")
	senders := []nodeSender{nodeState(to), nodeRoom(to), nodeNetwork(to)}
	datacenters, err := c.Ledger.Datacenters(ctx)
	if err != nil {
		return
	}
	names := make(map[writ.DatacenterID]string)
	for _, d := range datacenters {
		names[d.ID] = d.Name
		_, ok := c.links.Session(d.ID)
		connected(metrics.Bool(ok), d.Name, d.Region)
	}
	for n, err := range ledger.All(ctx, c.Ledger.Nodes, ledger.NodeFilter{Admission: writ.AdmissionApproved}) {
		if err != nil {
			return
		}
		for _, send := range senders {
			send(&n, names[n.Datacenter])
		}
	}
}

// nodeSender sends some metrics of a node.
type nodeSender func(n *writ.Node, datacenter string)

func nodeState(to *metrics.Scrape) nodeSender {
	ready := to.Gauge("writ_node_ready", "Whether an approved node is ready and has no fault: 1 or 0.",
		"datacenter", "node")
	mended := to.Counter("writ_node_mended_total",
		"Number of resources that the node has repaired since its runner started.", "datacenter", "node")
	return func(n *writ.Node, datacenter string) {
		ready(metrics.Bool(n.Liveness == writ.LivenessReady && n.Fault == ""), datacenter, n.Name)
		mended(float64(n.Mended), datacenter, n.Name)
	}
}

// nodeRoom declares the reserved disk and memory of a node, and the free space of each disk.
func nodeRoom(to *metrics.Scrape) nodeSender {
	capacity := to.Gauge("writ_node_capacity_bytes", "Disk and memory that the node offers.", "datacenter", "node", "of")
	reserved := to.Gauge("writ_node_reserved_bytes",
		"Disk and memory of the node that its resources and open calls have reserved.", "datacenter", "node", "of")
	size := to.Gauge("writ_node_disk_bytes", "Size of a disk of the node.", "datacenter", "node", "path")
	free := to.Gauge("writ_node_disk_free_bytes", "Free space of a disk in the last report of its node.",
		"datacenter", "node", "path")
	return func(n *writ.Node, datacenter string) {
		capacity(float64(n.Capacity.DiskGiB<<30), datacenter, n.Name, "disk")
		capacity(float64(n.Capacity.MemoryMiB<<20), datacenter, n.Name, "memory")
		reserved(float64(n.Used.DiskGiB<<30), datacenter, n.Name, "disk")
		reserved(float64(n.Used.MemoryMiB<<20), datacenter, n.Name, "memory")
		seen := make(map[string]bool)
		for _, disk := range n.Disks {
			if seen[disk.Path] { // two samples with the same labels would fail the whole scrape
				continue
			}
			seen[disk.Path] = true
			size(float64(disk.Bytes), datacenter, n.Name, disk.Path)
			free(float64(disk.Free), datacenter, n.Name, disk.Path)
		}
	}
}

// nodeNetwork declares the dropped packets and the overlay of a node.
func nodeNetwork(to *metrics.Scrape) nodeSender {
	dropped := to.Counter("writ_node_packets_dropped_total",
		"Packets dropped at the ports that the node has now: denied or spoofed.", "datacenter", "node", "reason")
	connected := to.Gauge("writ_node_overlay_connected", "Whether packets of the overlay can leave the node: 1 or 0.",
		"datacenter", "node")
	peers := to.Gauge("writ_node_overlay_peers", "Peers that the node's daemon of the overlay knows, alive or not.",
		"datacenter", "node", "alive")
	routes := to.Gauge("writ_node_overlay_routes", "Routes that the node's daemon of the overlay has chosen.",
		"datacenter", "node")
	bytes := to.Counter("writ_node_overlay_bytes_total",
		"Bytes to and from the peers that the node has now: sent or received.", "datacenter", "node", "direction")
	started := to.Gauge("writ_node_overlay_started_seconds",
		"When the node's daemon of the overlay was started, in unix seconds.", "datacenter", "node")
	return func(n *writ.Node, datacenter string) {
		if n.Network == nil {
			return
		}
		dropped(float64(n.Network.Denied), datacenter, n.Name, "denied")
		dropped(float64(n.Network.Spoofed), datacenter, n.Name, "spoofed")
		o := n.Network.Overlay
		if o == nil {
			return
		}
		connected(metrics.Bool(o.Connected), datacenter, n.Name)
		peers(float64(o.Alive), datacenter, n.Name, "yes")
		peers(float64(o.PeerCount-o.Alive), datacenter, n.Name, "no")
		routes(float64(o.Selected), datacenter, n.Name)
		bytes(float64(o.Sent), datacenter, n.Name, "sent")
		bytes(float64(o.Received), datacenter, n.Name, "received")
		if !o.Since.IsZero() {
			started(float64(o.Since.Unix()), datacenter, n.Name)
		}
	}
}

// queuesWithin limits the wait for the queues of datacenters. Datacenters that answer later are omitted.
const queuesWithin = 2 * time.Second

// sendQueues asks the datacenters for the calls that wait for each node, and for their ages.
func sendQueues(ctx context.Context, c *Coordinator, to *metrics.Scrape) {
	calls := to.Gauge("writ_queue_calls",
		"Open calls of a node by state: planned, queued, running. Calls without a node have an empty name.",
		"datacenter", "node", "state")
	oldest := to.Gauge("writ_queue_oldest_seconds",
		"Age in seconds of the oldest planned or queued call of a node, 0 without one.", "datacenter", "node", "state")
	ctx, cancel := context.WithTimeout(ctx, queuesWithin)
	defer cancel()
	all, err := c.live.QueuesWithAges(ctx)
	if err != nil {
		return
	}
	for _, d := range all {
		for node, q := range byName(d.Answer) {
			calls(float64(q.Planned), d.Name, node, string(writ.CallPlanned))
			calls(float64(q.Queued), d.Name, node, string(writ.CallQueued))
			calls(float64(q.Running), d.Name, node, string(writ.CallRunning))
			oldest(q.OldestPlanned.Seconds(), d.Name, node, string(writ.CallPlanned))
			oldest(q.OldestQueued.Seconds(), d.Name, node, string(writ.CallQueued))
		}
	}
}

// byName adds up the queues of nodes with the same name: a removed node may still have work when another node takes its
// name. Calls without a node are under "".
func byName(queues []link.QueueDepth) map[string]link.QueueDepth {
	named := make(map[string]link.QueueDepth, len(queues))
	for _, q := range queues {
		name := q.NodeName
		if q.Node == "" {
			name = ""
		}
		sum := named[name]
		sum.Planned, sum.Queued, sum.Running = sum.Planned+q.Planned, sum.Queued+q.Queued, sum.Running+q.Running
		sum.OldestPlanned, sum.OldestQueued = max(sum.OldestPlanned, q.OldestPlanned), max(sum.OldestQueued, q.OldestQueued)
		named[name] = sum
	}
	return named
}
