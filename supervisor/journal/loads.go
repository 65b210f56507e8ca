package journal

import (
	"database/sql"
	"maps"

	"writ/internal/sqldb"

	"writ"
)

// Load is the number of open calls and the reserved capacity on a node.
type Load struct {
	Planned, Queued, Running int           // open calls, by state
	Reserved                 writ.Capacity // by existing resources and by open calls that will create or grow one
}

// Open returns the number of open calls.
func (l Load) Open() int { return l.Planned + l.Queued + l.Running }

// Sent returns the number of calls on the node.
func (l Load) Sent() int { return l.Queued + l.Running }

func (l Load) plus(m Load) Load {
	return Load{l.Planned + m.Planned, l.Queued + m.Queued, l.Running + m.Running, l.Reserved.Plus(m.Reserved)}
}

func (l Load) minus(m Load) Load {
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

// shift records a change of a node's load. All changes of a commit are written together.
func (tx *Tx) shift(node writ.NodeID, by Load) {
	if by == (Load{}) {
		return
	}
	if tx.shifts == nil {
		tx.shifts = make(map[writ.NodeID]Load)
	}
	tx.shifts[node] = tx.shifts[node].plus(by)
}

// writeLoads writes the recorded changes.
func (tx *Tx) writeLoads() error {
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
	clear(tx.shifts)
	tx.loads = nil
	return nil
}

// Load returns the load of a node; "" stands for calls without a node.
func (tx *Tx) Load(node writ.NodeID) (Load, error) {
	if err := tx.readLoads(); err != nil {
		return Load{}, err
	}
	return tx.loads[node].plus(tx.shifts[node]), nil
}

// Loads returns the load of every node that has or had one.
func (tx *Tx) Loads() (map[writ.NodeID]Load, error) {
	if err := tx.readLoads(); err != nil {
		return nil, err
	}
	loads := maps.Clone(tx.loads)
	for node, l := range tx.shifts {
		loads[node] = loads[node].plus(l)
	}
	return loads, nil
}

// readLoads reads the loads of all nodes, once per commit.
func (tx *Tx) readLoads() error {
	if tx.loads != nil {
		return nil
	}
	rows, err := tx.QueryContext(tx.ctx, `SELECT node, planned, queued, running, cpu_hundredths, memory_mib, disk_gib FROM loads`)
	tx.loads, err = sqldb.Map(rows, err, func(row *sql.Rows) (node writ.NodeID, l Load, err error) {
		var cpu int64
		err = row.Scan(&node, &l.Planned, &l.Queued, &l.Running, &cpu, &l.Reserved.MemoryMiB, &l.Reserved.DiskGiB)
		l.Reserved = l.Reserved.WithCPU(writ.Hundredths(cpu))
		return node, l, err
	})
	return err
}
