package coord

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"writ"
	"writ/supervisor/link"
)

// The work of nodes, and their disk and memory.
var (
	capacityDesc = prometheus.NewDesc("writ_node_capacity_bytes", "Disk and memory that the node offers.",
		append(ofNode, "of"), nil)
	reservedDesc = prometheus.NewDesc("writ_node_reserved_bytes",
		"Disk and memory of the node that its resources and open calls have reserved.", append(ofNode, "of"), nil)
	diskDesc = prometheus.NewDesc("writ_node_disk_bytes", "Size of a disk of the node.", append(ofNode, "path"), nil)
	freeDesc = prometheus.NewDesc("writ_node_disk_free_bytes",
		"Free space of a disk of the node, as its datacenter knows it.", append(ofNode, "path"), nil)
	queuedDesc = prometheus.NewDesc("writ_queue_calls",
		"Open calls of a node by state: planned, queued, running. Calls without a node have an empty name.",
		append(ofNode, "state"), nil)
	oldestDesc = prometheus.NewDesc("writ_queue_oldest_seconds",
		"Age in seconds of the oldest planned or queued call of a node, 0 without one.", append(ofNode, "state"), nil)
)

// collectRoom reports the reserved disk and memory of a node and the free space of each disk.
func collectRoom(ch chan<- prometheus.Metric, n writ.Node, datacenter string) {
	send := func(d *prometheus.Desc, bytes int64, of string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(bytes), datacenter, n.Name, of)
	}
	send(capacityDesc, n.Capacity.DiskGiB<<30, "disk")
	send(capacityDesc, n.Capacity.MemoryMiB<<20, "memory")
	send(reservedDesc, n.Used.DiskGiB<<30, "disk")
	send(reservedDesc, n.Used.MemoryMiB<<20, "memory")
	seen := make(map[string]bool)
	for _, disk := range n.Disks {
		if seen[disk.Path] { // two samples with the same labels would fail the whole scrape
			continue
		}
		seen[disk.Path] = true
		send(diskDesc, disk.Bytes, disk.Path)
		send(freeDesc, disk.Free, disk.Path)
	}
}

// queuesWithin limits the wait for the queues of datacenters. Late ones are omitted.
const queuesWithin = 2 * time.Second

// collectQueues asks the datacenters for the calls that wait for each node, and for their ages.
func (s *state) collectQueues(ctx context.Context, ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(ctx, queuesWithin)
	defer cancel()
	all, err := s.c.live.QueuesWithAges(ctx)
	if err != nil {
		return
	}
	for _, d := range all {
		for node, q := range byName(d.Answer) {
			for state, n := range map[writ.CallState]int{
				writ.CallPlanned: q.Planned, writ.CallQueued: q.Queued, writ.CallRunning: q.Running,
			} {
				ch <- prometheus.MustNewConstMetric(queuedDesc, prometheus.GaugeValue, float64(n), d.Name, node, string(state))
			}
			for state, age := range map[writ.CallState]time.Duration{
				writ.CallPlanned: q.OldestPlanned, writ.CallQueued: q.OldestQueued,
			} {
				ch <- prometheus.MustNewConstMetric(oldestDesc, prometheus.GaugeValue, age.Seconds(), d.Name, node, string(state))
			}
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
