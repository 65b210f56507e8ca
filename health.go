package writ

// Health is the status that a node sends in every Beat. Node holds the latest one.
type Health struct {
	Slots     int          `json:"slots"`
	Capacity  Capacity     `json:"capacity"`
	Drivers   []NodeDriver `json:"drivers,omitempty"`
	Version   string       `json:"version,omitempty"`
	Transfers string       `json:"transfers,omitempty"` // "host:port" that serves archives to nodes, or ""
	Fault     string       `json:"fault,omitempty"`     // why the node gets no work, "" if it gets work
	Stuck     []Stuck      `json:"wedged,omitempty"`    // jobs whose drivers ignore their deadline
}

// Findings holds the results of a scan of a node, apart from its resources. Node holds the findings of the last scan.
type Findings struct {
	Mended  int64        `json:"mended,omitempty"`  // number of repairs since the node's runner started
	Orphans []Orphan     `json:"orphans,omitempty"` // all orphans of the node
	Network *NodeNetwork `json:"network,omitempty"` // nil without a network driver
	Disks   []Disk       `json:"disks,omitempty"`   // file systems with data of the node; in Node, Free is accurate to 1 %
}

// HostFacts is what a supervisor records about the host of a node over time.
type HostFacts struct {
	Host     *Host    `json:"host,omitempty"`     // from the node's latest report about its machine
	Boot     string   `json:"boot,omitempty"`     // the kernel's boot id
	Restarts int      `json:"restarts,omitempty"` // number of boot id changes that the supervisor saw
	Online   []Online `json:"online,omitempty"`   // recent months, oldest first
}
