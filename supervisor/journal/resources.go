package journal

import (
	"slices"
	"time"

	"writ"
	"writ/internal/sqldb"
	"writ/supervisor/placement"
	"writ/supervisor/published"
)

// Resource is a resource with the data needed to predict the effect of the next call.
type Resource struct {
	writ.Resource
	// Operation and Args describe the last call that created or changed the resource; handles in the arguments are
	// writ.Refs.
	Operation string         `json:"operation,omitempty"`
	Args      map[string]any `json:"args,omitempty"`
	Need      writ.Capacity  `json:"need"` // capacity that the resource uses on its node
	// Holds lists acts that are still in effect. An act is the digest of an operation with its arguments. Repeating a
	// listed act would not change the resource, because no other act has changed the resource since.
	Holds []writ.Digest `json:"holds,omitempty"`
	// Mendings counts the repairs that its node has reported.
	Mendings Mendings `json:"mendings,omitzero"`
}

// Mendings counts the repairs of a resource by its node.
type Mendings struct {
	Total       int64     `json:"total"`
	Incarnation int64     `json:"incarnation"` // node's incarnation at the last known repair
	Count       int64     `json:"count"`       // count within that incarnation
	Hour        time.Time `json:"hour"`        // hour of the last event about repairs, by the datacenter's clock
	Events      int       `json:"told"`        // events in that hour
}

// maxHeld limits the acts in Resource.Holds.
const maxHeld = 16

// AddHeld adds an act to Resource.Holds. If the list exceeds maxHeld, the oldest act is dropped.
func AddHeld(held []writ.Digest, act writ.Digest) []writ.Digest {
	if slices.Contains(held, act) {
		return held
	}
	held = append(slices.Clone(held), act)
	return held[max(0, len(held)-maxHeld):]
}

// PutResource stores a new or changed resource.
func (tx *Tx) PutResource(r *Resource) error {
	body, err := encode(tx, "resources", r, string(r.Project), string(r.Kind), r.Name)
	if err != nil {
		return err
	}
	before, err := tx.Resource(r.ResourceID)
	if err != nil {
		return err
	}
	if before != nil {
		tx.shift(before.Node, Load{}.Minus(before.load()))
		if before.UID != r.UID || before.Node != r.Node { // another resource has its name, or the resource has moved
			if err := Depart(tx, before); err != nil {
				return err
			}
		}
	}
	tx.shift(r.Node, r.load())
	publish(tx, r.Published())
	return tx.exec(`INSERT INTO resources (project, kind, name, node, cpu_hundredths, memory_mib, disk_gib, body) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
		ON CONFLICT (project, kind, name) DO UPDATE SET node = excluded.node, cpu_hundredths = excluded.cpu_hundredths,
		memory_mib = excluded.memory_mib, disk_gib = excluded.disk_gib, body = excluded.body`,
		string(r.Project), string(r.Kind), r.Name, string(r.Node), int64(r.Need.CPU()), r.Need.MemoryMiB, r.Need.DiskGiB, body)
}

// load returns the resource's share of its node's load.
func (r *Resource) load() Load { return Load{Reserved: r.Need} }

// RemoveResource deletes a resource.
func (tx *Tx) RemoveResource(id writ.ResourceID) error {
	before, err := tx.Resource(id)
	if err != nil || before == nil {
		return err
	}
	tx.shift(before.Node, Load{}.Minus(before.load()))
	publish(tx, published.Resource{ResourceID: id})
	if err := Depart(tx, before); err != nil {
		return err
	}
	return tx.exec(`DELETE FROM resources WHERE project = $1 AND kind = $2 AND name = $3`, string(id.Project),
		string(id.Kind), id.Name)
}

// Resource returns a resource, or nil if it is unknown. The zero ID of a call without a resource costs no query.
func (tx *Tx) Resource(id writ.ResourceID) (*Resource, error) {
	if id.Kind == "" {
		return nil, nil
	}
	return get[Resource](tx, "resources", `SELECT body FROM resources WHERE project = $1 AND kind = $2 AND name = $3`,
		string(id.Project), string(id.Kind), id.Name)
}

// ResourcesNamed returns the resources of a project and kind with these names, by name.
func (tx *Tx) ResourcesNamed(
	project writ.ProjectID, kind writ.ResourceKind, names []string,
) (map[string]*Resource, error) {
	found := make(map[string]*Resource)
	for some := range slices.Chunk(names, askedAtOnce) {
		rows, err := tx.someRows(2, resourcesNamed, asked(some, string(project), string(kind))...)
		if err != nil {
			return nil, err
		}
		for _, row := range rows {
			name, _ := row[0].(string)
			stored, _ := row[1].([]byte)
			body, err := tx.open("resources", stored, string(project), string(kind), name)
			if err != nil {
				return nil, err
			}
			if found[name], err = decode[Resource](body); err != nil {
				return nil, err
			}
		}
	}
	return found, nil
}

// askedAtOnce is the number of names in one query.
const askedAtOnce = 100

var resourcesNamed = `SELECT name, body FROM resources WHERE project = $1 AND kind = $2 AND name IN (` +
	sqldb.Placeholders(3, askedAtOnce) + `)`

// asked returns the arguments of a query for askedAtOnce names. If there are fewer names, the last name is repeated, so
// that a single prepared statement suffices.
func asked(names []string, before ...any) []any {
	for i := range askedAtOnce {
		before = append(before, names[min(i, len(names)-1)])
	}
	return before
}

// Resources returns all resources of the datacenter.
func (tx *Tx) Resources() ([]*Resource, error) {
	return list[Resource](tx, "resources", `SELECT project, kind, name, body FROM resources ORDER BY project, kind, name`)
}

// ResourcesOn returns all resources on a node.
func (tx *Tx) ResourcesOn(node writ.NodeID) ([]*Resource, error) {
	return list[Resource](tx, "resources",
		`SELECT project, kind, name, body FROM resources WHERE node = $1 ORDER BY project, kind, name`, string(node))
}

// ProjectResources returns all resources of a project.
func (tx *Tx) ProjectResources(project writ.ProjectID) ([]*Resource, error) {
	return list[Resource](tx, "resources",
		`SELECT project, kind, name, body FROM resources WHERE project = $1 ORDER BY kind, name`, string(project))
}

// Published returns the published ports of a resource.
func (r *Resource) Published() published.Resource {
	return published.Resource{ResourceID: r.ResourceID, Node: r.Node, Ports: published.By(r.Values, r.Args)}
}

// publish records the published ports of a changed resource.
func publish(tx *Tx, r published.Resource) {
	if tx.ports != nil {
		tx.ports.Set(r, tx.batch)
	}
}

// UsersOfPorts returns the resources that publish one of these ports, sorted. The first write transaction of an epoch
// that calls UsersOfPorts reads all resources into an index. Later transactions read only the resources of failed
// writes. Until the index is loaded, each read transaction reads all resources.
func UsersOfPorts(tx *Tx, ports []placement.Port) ([]published.User, error) {
	writes := tx.ports != nil && tx.Batch != nil
	if tx.ports == nil || !writes && !tx.ports.Loaded() {
		all, err := publishing(tx)
		return published.Users(all, ports), err
	}
	if writes && !tx.ports.Loaded() {
		all, err := publishing(tx)
		if err != nil {
			return nil, err
		}
		tx.ports.Load(all)
	}
	again, err := publishingOf(tx, tx.ports.Unsure(tx.batch))
	if err != nil {
		return nil, err
	}
	if writes {
		for _, r := range again {
			tx.ports.Set(r, tx.batch)
		}
		again = nil
	}
	return tx.ports.Users(ports, again), nil
}

// publishingOf returns the published ports of some resources. Missing resources have no ports.
func publishingOf(tx *Tx, ids []writ.ResourceID) ([]published.Resource, error) {
	some := make([]published.Resource, 0, len(ids))
	for _, id := range ids {
		r, err := tx.Resource(id)
		switch {
		case r != nil:
			some = append(some, r.Published())
		case err == nil || isForged(err):
			some = append(some, published.Resource{ResourceID: id})
		default:
			return nil, err
		}
	}
	return some, nil
}

// publishing returns the published ports of all resources.
func publishing(tx *Tx) ([]published.Resource, error) {
	resources, err := tx.Resources()
	all := make([]published.Resource, 0, len(resources))
	for _, r := range resources {
		all = append(all, r.Published())
	}
	return all, err
}

// OpenCallOn returns another run with an open call that may still change the resource, or "".
func (tx *Tx) OpenCallOn(id writ.ResourceID, except writ.RunID) (writ.RunID, error) {
	return tx.firstRun(openCallOn, string(id.Project), string(id.Kind), id.Name, string(except))
}

const openCallOn = `SELECT run FROM calls WHERE project = $1 AND kind = $2 AND name = $3 AND open AND claimed AND kind <> ''
	AND run <> $4 ORDER BY planned LIMIT 1`

// OpenCallsOn is OpenCallOn for all resources of a project and kind with these names. Names without such a run are
// omitted.
func (tx *Tx) OpenCallsOn(
	project writ.ProjectID, kind writ.ResourceKind, names []string, except writ.RunID,
) (map[string]writ.RunID, error) {
	found := make(map[string]writ.RunID)
	for some := range slices.Chunk(names, askedAtOnce) {
		rows, err := tx.someRows(2, openCallsOn, asked(some, string(project), string(kind), string(except))...)
		if err != nil {
			return nil, err
		}
		for _, row := range rows {
			name, _ := row[0].(string)
			run, _ := row[1].(string)
			if _, earlier := found[name]; !earlier {
				found[name] = writ.RunID(run)
			}
		}
	}
	return found, nil
}

var openCallsOn = `SELECT name, run FROM calls WHERE project = $1 AND kind = $2 AND name IN (` +
	sqldb.Placeholders(4, askedAtOnce) + `) AND open AND claimed
	AND kind <> '' AND run <> $3 ORDER BY name, planned`

// RunsWaitingFor returns at most max other runs with a call that waits for the resource, oldest first.
func (tx *Tx) RunsWaitingFor(id writ.ResourceID, except writ.RunID, max int) ([]writ.RunID, error) {
	return tx.runIDs(runsWaitingFor, string(id.Project), string(id.Kind), id.Name, string(except), max)
}

const runsWaitingFor = `SELECT run FROM calls WHERE project = $1 AND kind = $2 AND name = $3 AND open AND NOT claimed AND kind <> ''
	AND run <> $4 ORDER BY planned LIMIT $5`

// UsageGrace limits how long after an hour nodes may report its usage. A node that is disconnected for a shorter time
// loses no usage.
const UsageGrace = 31 * 24 * time.Hour

// Departed is a resource that is no longer on a node.
type Departed struct {
	writ.ResourceID
	Created time.Time `json:"created"`
}

// Depart records that a resource has left its node. Reports of its usage there may still arrive.
func Depart(tx *Tx, r *Resource) error {
	if r.UID == "" || r.Node == "" { // the resource never existed on a node
		return nil
	}
	body, err := encode(tx, "departed", Departed{r.ResourceID, r.Created}, string(r.UID), string(r.Node))
	if err != nil {
		return err
	}
	return tx.exec(`INSERT INTO departed (uid, node, body, gone) VALUES ($1, $2, $3, $4)
		ON CONFLICT (uid, node) DO UPDATE SET body = excluded.body, gone = excluded.gone`, string(r.UID), string(r.Node),
		body, sqldb.Micros(tx.Now))
}

// Departed returns the resource that a node had under a UID within the last UsageGrace, or nil.
func (tx *Tx) Departed(uid writ.UID, node writ.NodeID) (*Departed, error) {
	return get[Departed](tx, "departed", `SELECT body FROM departed WHERE uid = $1 AND node = $2`, string(uid),
		string(node))
}

// forgetDeparted deletes the oldest departed resources that are past UsageGrace.
func (tx *Tx) forgetDeparted(now time.Time) (int64, error) {
	return tx.affected(`DELETE FROM departed
		WHERE uid IN (SELECT uid FROM departed WHERE gone < $1 ORDER BY gone LIMIT $2) AND gone < $1`,
		sqldb.Micros(now.Add(-UsageGrace)), forgetRows)
}
