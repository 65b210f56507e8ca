package writ

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"
)

// NodeDriver is a node's driver for the operations of one module.
type NodeDriver struct {
	Module    string `json:"module"` // "volume"
	Name      string `json:"name"`   // "btrfs", "directory", "simulated"
	Simulated bool   `json:"simulated,omitempty"`
	Detail    string `json:"detail,omitempty"` // version, or the reason for the simulation
	Lacks     string `json:"lacks,omitempty"`  // missing part of the host; prevents new resources only
	// Engines lists the programs that the driver can use, best first, followed by installed programs that it refuses.
	// It is empty if there is only one way to serve.
	Engines []Engine `json:"engines,omitempty"`
	// Opens lists the ports that resources may publish, by address: "192.0.2.10:80,8000-8999". Only the network driver
	// sets it.
	Opens   []string `json:"opens,omitempty"`
	Init    bool     `json:"init,omitempty"`    // has an init program for containers
	Devices []string `json:"devices,omitempty"` // names of the devices that containers may have
}

// Engine is a program that a driver can use, as installed on one node.
type Engine struct {
	Name    string `json:"name"` // "redis-server"
	Version string `json:"version,omitempty"`
	Refused string `json:"refused,omitempty"` // why the program serves no new resources, "" if it serves them
}

// Does reports whether the engine can serve a request. Its name must be in names, unless names is empty. Its version
// must match: a prefix such as 7 matches 7.2.4, and "" matches any version.
func (e Engine) Does(names []string, version string) bool {
	return e.Refused == "" && (len(names) == 0 || slices.Contains(names, e.Name)) && e.IsVersion(version)
}

// IsVersion reports whether the engine's version equals `asked` or begins with it, component by component.
func (e Engine) IsVersion(asked string) bool {
	return asked == "" || e.Version == asked || strings.HasPrefix(e.Version, asked+".")
}

// String formats an engine for people: "redis-server 7.2.4".
func (e Engine) String() string { return strings.TrimSuffix(e.Name+" "+e.Version, " ") }

// Node is a host as its datacenter records it.
type Node struct {
	ID         NodeID            `json:"id"`
	Datacenter DatacenterID      `json:"datacenter"`
	Name       string            `json:"name"`
	Key        string            `json:"key"` // fingerprint of the node's signing key, "SHA256:…"
	Admission  Admission         `json:"admission"`
	Gone       bool              `json:"gone,omitempty"`  // a person signed that the node never returns
	Fence      *Fence            `json:"fence,omitempty"` // state of the fence of a node that is gone
	Scheduling Scheduling        `json:"scheduling"`
	Liveness   Liveness          `json:"liveness"`
	Labels     map[string]string `json:"labels,omitempty"` // set by operators; scripts select by them
	Health
	HostFacts
	Findings
	Used     Capacity   `json:"used"`               // reserved by the resources placed on the node
	Revision int        `json:"revision,omitempty"` // number of decisions about the node; statements name the current one
	Decided  []Decision `json:"decided,omitempty"`  // the latest decisions about the node, oldest first
	Joined   time.Time  `json:"joined"`
	LastBeat time.Time  `json:"last_beat,omitzero"`
}

// Online counts the time for which a node was online in a month, out of the time in which its supervisor listened.
type Online struct {
	Month   string `json:"month"` // in UTC, "2026-11"
	Seconds int64  `json:"seconds"`
	Of      int64  `json:"of"` // seconds that the supervisor listened
}

// Decision is a decision that a person signed, with its reason.
type Decision struct {
	Decision string    `json:"decision"` // as in the statement: "cordon"
	Signer   string    `json:"signer"`
	Reason   string    `json:"reason,omitempty"` // one line, as the person wrote it
	Time     time.Time `json:"time"`             // when the supervisor applied it
}

// MaxDecisions limits the decisions that are stored with their subject.
const MaxDecisions = 5

// Fence is the state of the resources and calls of a node that is gone. They may be recreated on other nodes. If the
// node returns anyway, it stops its copies and reports that. Until then, a resource may run twice.
type Fence struct {
	Ordered time.Time `json:"ordered"` // when a person signed that the node is gone
	// Superseded counts the resources and open calls of the node at that time.
	Superseded int       `json:"superseded"`
	Answered   time.Time `json:"answered,omitzero"` // the node's last report about the fence, zero if it never returned
	Stopped    int       `json:"stopped,omitempty"` // machines, containers and databases that the node stopped
	Open       []string  `json:"open,omitempty"`    // resources that the node could not stop yet, as sentences
}

// Obeyed reports whether the node has stopped all superseded resources.
func (f *Fence) Obeyed() bool { return f != nil && !f.Answered.IsZero() && len(f.Open) == 0 }

// MaxLabels limits the labels of a node, and the labels that a call can select by.
const MaxLabels = 32

var labelPattern = regexp.MustCompile(`^[A-Za-z0-9._/-]{0,63}$`)

// ValidLabel reports whether name is a valid name and value has at most 63 letters, digits and characters of "._/-".
func ValidLabel(name, value string) bool { return ValidName(name) && labelPattern.MatchString(value) }

// LabelsText formats labels for people, sorted by name: "disk=ssd, rack=a1".
func LabelsText(labels map[string]string) string {
	all := make([]string, 0, len(labels))
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		all = append(all, name+"="+labels[name])
	}
	return strings.Join(all, ", ")
}

// Orphan is an object on a host with a name or mark of writ but without a resource. Its record was deleted or is
// damaged, or the host's disk was restored to an earlier state. A delete can also leave an object that now belongs to
// another program, such as a socket with a foreign listener. If a delete fails for another reason, the record stays in
// state deleting with the obstacle as drift, and the node retries. Nodes report orphans while they exist. They remove
// only stray image files, because the content of other orphans is unknown.
type Orphan struct {
	Module string `json:"module"`           // module of the driver that found it
	Kind   string `json:"kind"`             // "tap", "process", "subvolume"
	Name   string `json:"name"`             // as the host's own tools expect it
	Of     string `json:"of,omitempty"`     // host name of the resource that it was made for, if known
	Remedy string `json:"remedy,omitempty"` // shell command that removes it, "" if not simple
}

// OrphanSuperseded is the prefix of the kinds of orphans that are resources of a node declared gone. These resources
// still hold their data.
const OrphanSuperseded = "superseded"

// OrphanDamaged is the kind of an orphan that is an unreadable record of a resource.
const OrphanDamaged = "damaged record"

// Datacenter is a site with one supervisor, as recorded in the roster.
type Datacenter struct {
	ID     DatacenterID      `json:"id"`
	Name   string            `json:"name"`
	Region string            `json:"region"`
	Labels map[string]string `json:"labels,omitempty"`
}

// QueueDepth counts the open calls of a node in the datacenter's journal.
type QueueDepth struct {
	Node     NodeID `json:"node"`
	NodeName string `json:"node_name"`
	Planned  int    `json:"planned"`
	Queued   int    `json:"queued"`
	Running  int    `json:"running"`
}

// MaxTokenUses limits the nodes that one join token admits.
const MaxTokenUses = 1000

// JoinToken is a join token as the datacenter records it. The token's secret is known only to its holder.
type JoinToken struct {
	ID         string       `json:"id"`
	Datacenter DatacenterID `json:"datacenter"`
	CreatedBy  string       `json:"created_by"`
	Expires    time.Time    `json:"expires"` // a revoked token expires at its revocation
	Uses       int          `json:"uses"`    // number of nodes that the token admits
	Used       int          `json:"used"`
	Nodes      []string     `json:"nodes"` // names of the admitted nodes
}
