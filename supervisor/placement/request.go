// Package placement decides which node gets a call, and whose calls get the room of a node. All its functions are pure:
// they know nodes, capacities and projects as values. They must not know the journal, the queue, or how a run advances.
package placement

import (
	"fmt"
	"slices"
	"strings"

	"writ"
)

// Request describes the node that a group of calls needs. Calls of a group go to one node together.
type Request struct {
	Modules []string // modules whose drivers the node needs
	Engines []EngineRequest
	Need    writ.Capacity // of all calls together
	Ports   []Port        // published ports that the node has to provide
	Labels  map[string]string
	Node    string      // name or ID of the only suitable node, "" for any
	Prefer  writ.NodeID // goes first among the suitable nodes, "" for none
	Bound   bool        // a resource of the group is on Node already, so Node may be closed to new work
}

// EngineRequest describes the engine that a call requests from the driver of a module.
type EngineRequest struct {
	Module  string
	Names   []string // suitable engines; any engine if empty
	Version string   // prefix of the version; any version if empty
}

// Candidate is a node with its present load.
type Candidate struct {
	writ.Node
	Free  writ.Capacity
	Open  int             // planned and sent calls
	Ports map[Port]string // published ports with their users: "container web"
}

// Decision is the answer to a request.
type Decision struct {
	Node writ.NodeID // "" if no node is suitable
	// Later means that an unsuitable node may become suitable by itself, so the calls wait. Otherwise they fail.
	Later      bool
	Why        writ.Reason        // ReasonNoNode if no node is suitable
	Fit        int                // number of suitable nodes
	Unsuitable []writ.NodeVerdict // the other nodes
	Preferred  bool               // Node is Request.Prefer
	Bound      bool               // a resource of the group was on the node before
}

// NeverFits reports whether the need exceeds the whole capacity of the node. The capacity of a node that has not
// reported yet is unknown.
func (c Candidate) NeverFits(need writ.Capacity) bool {
	return c.Capacity != (writ.Capacity{}) && !Fits(need, c.Capacity)
}

// String formats the request for messages: "valkey-server or redis-server of version 7".
func (e EngineRequest) String() string {
	names := strings.Join(e.Names, " or ")
	if names == "" {
		names = "one"
	}
	if e.Version == "" {
		return names
	}
	return names + " of version " + e.Version
}

// Fits reports whether `free` covers `need`. An amount of zero always fits, even if `free` is negative.
func Fits(need, free writ.Capacity) bool {
	return need.CPUs <= max(free.CPUs, 0) && need.MemoryMiB <= max(free.MemoryMiB, 0) &&
		need.DiskGiB <= max(free.DiskGiB, 0)
}

// Shortage formats the amounts of `need` that `free` does not cover.
func Shortage(need, free writ.Capacity) string { return shortage(need, free, "left") }

// shortage ends each amount with scope: "left" or "in all".
func shortage(need, free writ.Capacity, scope string) string {
	var all []string
	for _, amount := range []struct {
		need, free int64
		unit       string
	}{
		{need.CPUs, free.CPUs, "CPUs"}, {need.MemoryMiB, free.MemoryMiB, "MiB of memory"},
		{need.DiskGiB, free.DiskGiB, "GiB of disk"},
	} {
		if has := max(amount.free, 0); amount.need > has {
			all = append(all, fmt.Sprintf("has %d of the %d needed %s %s", has, amount.need, amount.unit, scope))
		}
	}
	return strings.Join(all, ", ")
}

// refusal returns the reason why no engine of a node is suitable, "" if one is. A node that reports no engines of the
// module may have any.
func (e EngineRequest) refusal(c Candidate) string {
	i := slices.IndexFunc(c.Drivers, func(d writ.NodeDriver) bool { return d.Module == e.Module && len(d.Engines) > 0 })
	if i < 0 ||
		slices.ContainsFunc(c.Drivers[i].Engines, func(has writ.Engine) bool { return has.Does(e.Names, e.Version) }) {
		return ""
	}
	has, refused := "none", ""
	if names := offered(c.Drivers[i].Engines); len(names) > 0 {
		has = strings.Join(names, ", ")
	}
	for _, engine := range c.Drivers[i].Engines {
		if engine.Refused != "" && slices.Contains(e.Names, engine.Name) {
			refused += "; it does not use " + engine.Name + ": " + engine.Refused
		}
	}
	return fmt.Sprintf("has no engine for %s that will do: it offers %s, and %s is asked for%s", e.Module, has, e, refused)
}

// offered returns the engines that serve new resources.
func offered(engines []writ.Engine) (names []string) {
	for _, e := range engines {
		if e.Refused == "" {
			names = append(names, e.String())
		}
	}
	return names
}
