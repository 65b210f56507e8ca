package journal

import (
	"fmt"
	"slices"

	"writ"
	"writ/internal/cbor"
)

// Resource is a resource with what must be known to foresee what the next call does to it.
type Resource struct {
	writ.Resource
	// Operation and Args are the call that made it, as of the last time; handles among the arguments are writ.Refs. Resources of an earlier
	// version have no Operation, and handles of their own run.
	Operation string         `json:"operation,omitempty"`
	Args      map[string]any `json:"args,omitempty"`
	Need      writ.Capacity  `json:"need"` // what it uses up on its node
	// Holds names acts (digests of an operation with its arguments) that would change nothing now: since they were done nothing else was.
	Holds []writ.Digest `json:"holds,omitempty"`
}

// maxHeld bounds the acts that a resource remembers.
const maxHeld = 16

// AddHeld adds an act to those that would change nothing; when there are too many, the oldest is forgotten.
func AddHeld(held []writ.Digest, act writ.Digest) []writ.Digest {
	if slices.Contains(held, act) {
		return held
	}
	held = append(slices.Clone(held), act)
	return held[max(0, len(held)-maxHeld):]
}

// PutResource keeps a resource, new or changed.
func (tx *Tx) PutResource(r *Resource) error {
	body, err := cbor.Marshal(r)
	if err != nil {
		return fmt.Errorf("encode resource: %w", err)
	}
	return tx.exec(`INSERT INTO resources (project, kind, name, node, cpus, memory_mib, disk_gib, body) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
		ON CONFLICT (project, kind, name) DO UPDATE SET node = excluded.node, cpus = excluded.cpus, memory_mib = excluded.memory_mib,
		disk_gib = excluded.disk_gib, body = excluded.body`,
		string(r.Project), string(r.Kind), r.Name, string(r.Node), r.Need.CPUs, r.Need.MemoryMiB, r.Need.DiskGiB, body)
}

// RemoveResource forgets a resource.
func (tx *Tx) RemoveResource(id writ.ResourceID) error {
	return tx.exec(`DELETE FROM resources WHERE project = $1 AND kind = $2 AND name = $3`, string(id.Project), string(id.Kind), id.Name)
}

// Resource returns a resource, nil if there is none.
func (tx *Tx) Resource(id writ.ResourceID) (*Resource, error) {
	return get[Resource](tx, `SELECT body FROM resources WHERE project = $1 AND kind = $2 AND name = $3`,
		string(id.Project), string(id.Kind), id.Name)
}

// Resources returns all resources of the datacenter.
func (tx *Tx) Resources() ([]*Resource, error) {
	return list[Resource](tx, `SELECT body FROM resources ORDER BY project, kind, name`)
}

// ProjectResources returns all resources of a project.
func (tx *Tx) ProjectResources(project writ.ProjectID) ([]*Resource, error) {
	return list[Resource](tx, `SELECT body FROM resources WHERE project = $1 ORDER BY kind, name`, string(project))
}

// Used returns what is reserved on each node: by resources that exist and by open calls that will make or grow one.
func (tx *Tx) Used() (map[writ.NodeID]writ.Capacity, error) {
	rows, err := tx.QueryContext(tx.ctx, `SELECT node, CAST(SUM(cpus) AS BIGINT), CAST(SUM(memory_mib) AS BIGINT), CAST(SUM(disk_gib) AS BIGINT) FROM (
		SELECT node, cpus, memory_mib, disk_gib FROM resources
		UNION ALL
		SELECT node, cpus, memory_mib, disk_gib FROM calls WHERE open
	) AS reserved WHERE node <> '' GROUP BY node`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	used := make(map[writ.NodeID]writ.Capacity)
	for rows.Next() {
		var node writ.NodeID
		var c writ.Capacity
		if err := rows.Scan(&node, &c.CPUs, &c.MemoryMiB, &c.DiskGiB); err != nil {
			return nil, err
		}
		used[node] = c
	}
	return used, rows.Err()
}

// OpenCallOn returns another run with an open call on the resource that may still change it, "" if there is none.
func (tx *Tx) OpenCallOn(id writ.ResourceID, except writ.RunID) (writ.RunID, error) {
	ids, err := tx.runIDs(`SELECT run FROM calls WHERE project = $1 AND kind = $2 AND name = $3 AND open
		AND claimed AND run <> $4 ORDER BY planned LIMIT 1`, string(id.Project), string(id.Kind), id.Name, string(except))
	if err != nil || len(ids) == 0 {
		return "", err
	}
	return ids[0], nil
}
