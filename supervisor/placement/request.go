// Package placement decides which node gets a call, and which projects get the room of a node. All its functions are
// pure: they receive nodes, capacities and projects as values. They must not depend on the journal, the queue, or the
// code that advances runs.
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
	Ports   []PortRequest // published ports that the node has to provide
	Init    bool          // the node needs an init program for containers
	Devices []string      // devices that the node needs for containers
	Labels  map[string]string
	Node    string      // name or ID of the only suitable node, "" for any
	Prefer  writ.NodeID // preferred among the suitable nodes with equally many sharers of Ports, "" for none
	Bound   bool        // a resource of the group is on Node already, so Node may be closed to new work

	// Set by Choose.
	twice   Port     // the first port that Ports has twice, zero if none
	labels  []string // the names in Labels, sorted
	explain bool     // whether refusals have reasons; most are not read
}

// EngineRequest describes the engine that a call requests from the driver of a module.
type EngineRequest struct {
	Module  string
	Names   []string // suitable engines; any engine if empty
	Version string   // prefix of the version; any version if empty
}

// Candidate is a node with its present load.
type Candidate struct {
	*writ.Node // never changed
	Free       writ.Capacity
	Open       int // planned and sent calls
	Ports      map[Port]PortUse
}

// Decision is the answer to a request.
type Decision struct {
	Node writ.NodeID // "" if no node is suitable
	// Later means that an unsuitable node may become suitable by itself, so the calls wait. Otherwise they fail.
	Later      bool
	Why        writ.Reason        // ReasonNoNode if no node is suitable
	Only       bool               // no other node is suitable
	Unsuitable []writ.NodeVerdict // if none is suitable: all nodes, or only Request.Node
	Preferred  bool               // Node is Request.Prefer
	Bound      bool               // a resource of the group was on the node before
}

// NeverFits reports whether the need exceeds the whole capacity of the node. The capacity of a node that has not
// reported yet is unknown.
func (c *Candidate) NeverFits(need writ.Capacity) bool {
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
	return need.CPU() <= max(free.CPU(), 0) && need.MemoryMiB <= max(free.MemoryMiB, 0) &&
		need.DiskGiB <= max(free.DiskGiB, 0)
}

// Shortage formats the amounts of `need` that `free` does not cover: "has 0.3 CPUs free, 0.5 needed".
func Shortage(need, free writ.Capacity) string { return shortage(need, free, "free", "needed") }

// Growth describes why a resource that has the capacity `before` cannot get `more` on its node. The whole capacity or
// the free capacity of the node is too small. `before` is zero for a new resource.
func (c *Candidate) Growth(before, more writ.Capacity) string {
	verb := "needed"
	if all := before.Plus(more); c.NeverFits(all) {
		return "is too small: " + shortage(all, c.Capacity, "in all", verb)
	}
	if before != (writ.Capacity{}) {
		verb = "more needed"
	}
	return shortage(more, c.Free, "free", verb)
}

// shortage formats the amounts that `free` does not cover. The text has scope ("free" or "in all") after each amount
// that the node has, and verb after each amount that is needed.
func shortage(need, free writ.Capacity, scope, verb string) string {
	whole := func(n int64) writ.Hundredths { return writ.Hundredths(n * 100) }
	var all []string
	for _, amount := range []struct {
		need, free writ.Hundredths
		unit       string
	}{
		{need.CPU(), free.CPU(), "CPUs"}, {whole(need.MemoryMiB), whole(free.MemoryMiB), "MiB of memory"},
		{whole(need.DiskGiB), whole(free.DiskGiB), "GiB of disk"},
	} {
		if has := max(amount.free, 0); amount.need > has {
			unit := amount.unit
			if has == 100 && unit == "CPUs" {
				unit = "CPU"
			}
			all = append(all, fmt.Sprintf("has %s %s %s, %s %s", has, unit, scope, amount.need, verb))
		}
	}
	return strings.Join(all, "; ")
}

// isOffered reports whether an engine of a node is suitable. If the node reports no engines of the module, every engine
// may be suitable.
func (e EngineRequest) isOffered(c *Candidate) bool {
	driver := driverOf(c, e.Module)
	return driver == nil || len(driver.Engines) == 0 ||
		slices.ContainsFunc(driver.Engines, func(has writ.Engine) bool { return has.Does(e.Names, e.Version) })
}

// refusal returns the reason why no engine of a node is suitable.
func (e EngineRequest) refusal(c *Candidate) string {
	engines := driverOf(c, e.Module).Engines
	has, refused := "none", ""
	if names := offered(engines); len(names) > 0 {
		has = strings.Join(names, ", ")
	}
	for _, engine := range engines {
		if engine.Refused != "" && slices.Contains(e.Names, engine.Name) {
			refused += "; it does not use " + engine.Name + ": " + engine.Refused
		}
	}
	return fmt.Sprintf("has no suitable engine for %s: it offers %s, and %s is required%s", e.Module, has, e, refused)
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
