package journal

import (
	"database/sql"

	"writ/internal/sqldb"

	"writ"
)

// Load is the number of open calls and the reserved capacity on a node.
type Load struct {
	Planned, Queued, Running int           // open calls, by state
	Reserved                 writ.Capacity // by existing resources and by open calls that create or grow resources
}

// Open returns the number of open calls.
func (l Load) Open() int { return l.Planned + l.Queued + l.Running }

// Sent returns the number of calls that were sent to the node and have not ended.
func (l Load) Sent() int { return l.Queued + l.Running }

func (l Load) plus(m Load) Load {
	return Load{l.Planned + m.Planned, l.Queued + m.Queued, l.Running + m.Running, l.Reserved.Plus(m.Reserved)}
}

// Minus returns l without m.
func (l Load) Minus(m Load) Load {
	return Load{l.Planned - m.Planned, l.Queued - m.Queued, l.Running - m.Running, l.Reserved.Minus(m.Reserved)}
}

// kept holds the columns of a call that are searched or counted and may change.
type kept struct {
	state writ.CallState // "" if the call is not in the journal
	placed
}

// placed holds a call's placement and wait state.
type placed struct {
	node           writ.NodeID
	need           writ.Capacity
	claimed, ready bool
	retryAt        int64
}

// columns returns the values of node, claimed, ready, retry_at, cpu_hundredths, memory_mib and disk_gib.
func (p placed) columns() []any {
	return []any{string(p.node), p.claimed, p.ready, p.retryAt, int64(p.need.CPU()), p.need.MemoryMiB, p.need.DiskGiB}
}

// load returns the call's share of its node's load.
func (k kept) load() Load {
	switch k.state {
	case writ.CallPlanned:
		return Load{Planned: 1, Reserved: k.need}
	case writ.CallQueued:
		return Load{Queued: 1, Reserved: k.need}
	case writ.CallRunning:
		return Load{Running: 1, Reserved: k.need}
	default:
		return Load{}
	}
}

// EndedLoads returns, by node, the load of calls that have ended in memory and are open in the journal. PutCall removes
// this load. Until then, Loads counts such a call in addition to the resource that it made.
func EndedLoads(calls []*Call) map[writ.NodeID]Load {
	loads := make(map[writ.NodeID]Load)
	for _, c := range calls {
		if c.WasOpen() && c.State.Ended() {
			loads[c.stored.node] = loads[c.stored.node].plus(c.stored.load())
		}
	}
	return loads
}

// shift records a change of a node's load. All changes of a commit are written together.
func (tx *Tx) shift(node writ.NodeID, by Load) {
	if by == (Load{}) {
		return
	}
	if tx.loads != nil {
		tx.loads[node] = tx.loads[node].plus(by)
	}
	if tx.shifts == nil {
		tx.shifts = make(map[writ.NodeID]Load)
	}
	tx.shifts[node] = tx.shifts[node].plus(by)
}

// keptLoads holds the loads of all nodes as on disk, so that a step does not read them. Only write transactions of an
// epoch use it, one at a time. A batch that needs the loads takes the map and returns it after its commit. If the
// commit fails, the loads stay unknown until the next batch reads them.
type keptLoads struct {
	loads map[writ.NodeID]Load // nil if unknown
}

// take returns the loads and marks them as unknown.
func (k *keptLoads) take() map[writ.NodeID]Load {
	loads := k.loads
	k.loads = nil
	return loads
}

// stored keeps the loads of a batch after its commit.
func (k *keptLoads) stored(b *batch) {
	switch {
	case b.loads != nil:
		k.loads = b.loads
	case k.loads != nil: // an earlier batch of the same commit returned the loads
		for node, l := range b.shifts {
			k.loads[node] = k.loads[node].plus(l)
		}
	}
}

// writeLoads writes the recorded changes.
func (tx *Tx) writeLoads() error {
	if tx.kept != nil && tx.loads == nil && len(tx.shifts) > 0 && tx.kept.loads != nil {
		if _, err := tx.Loads(); err != nil {
			return err
		}
	}
	for node, l := range tx.shifts {
		if l == (Load{}) {
			continue
		}
		err := tx.exec(`INSERT INTO loads (node, planned, queued, running, cpu_hundredths, memory_mib, disk_gib) VALUES ($1, $2, $3, $4, $5, $6, $7)
			ON CONFLICT (node) DO UPDATE SET planned = loads.planned + excluded.planned, queued = loads.queued + excluded.queued,
			running = loads.running + excluded.running, cpu_hundredths = loads.cpu_hundredths + excluded.cpu_hundredths,
			memory_mib = loads.memory_mib + excluded.memory_mib, disk_gib = loads.disk_gib + excluded.disk_gib`,
			string(node), l.Planned, l.Queued, l.Running, int64(l.Reserved.CPU()), l.Reserved.MemoryMiB, l.Reserved.DiskGiB)
		if err != nil {
			return err
		}
	}
	return nil
}

// Load returns the load of a node. For the node "", it returns the load of the calls without a node.
func (tx *Tx) Load(node writ.NodeID) (Load, error) {
	if tx.loads != nil || keeps(tx) {
		loads, err := tx.Loads()
		return loads[node], err
	}
	loads, err := tx.readLoads("WHERE node = $1", string(node))
	return loads[node].plus(tx.shifts[node]), err
}

// keeps reports whether the loads of this transaction are kept for the next transaction.
func keeps(tx *Tx) bool { return tx.kept != nil && tx.Batch != nil }

// Loads returns the loads by node. It omits nodes that never had a call or resource. The caller must not change the
// map. In a write transaction, the next change of a call or resource changes the map.
func (tx *Tx) Loads() (map[writ.NodeID]Load, error) {
	if tx.loads != nil {
		return tx.loads, nil
	}
	var loads map[writ.NodeID]Load
	if keeps(tx) {
		loads = tx.kept.take()
	}
	if loads == nil {
		var err error
		if loads, err = tx.readLoads(""); err != nil {
			return nil, err
		}
	}
	for node, l := range tx.shifts {
		loads[node] = loads[node].plus(l)
	}
	tx.loads = loads
	return loads, nil
}

// readLoads reads the loads of the nodes that match a condition.
func (tx *Tx) readLoads(where string, args ...any) (map[writ.NodeID]Load, error) {
	rows, err := tx.QueryContext(tx.ctx, `SELECT node, planned, queued, running, cpu_hundredths, memory_mib, disk_gib
		FROM loads `+where, args...)
	return sqldb.Map(rows, err, func(row *sql.Rows) (node writ.NodeID, l Load, err error) {
		var cpu int64
		err = row.Scan(&node, &l.Planned, &l.Queued, &l.Running, &cpu, &l.Reserved.MemoryMiB, &l.Reserved.DiskGiB)
		l.Reserved = l.Reserved.WithCPU(writ.Hundredths(cpu))
		return node, l, err
	})
}
