package writ

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Capacity is an amount of what nodes have and resources use up.
type Capacity struct {
	CPUs      int64 `json:"cpus"`
	MemoryMiB int64 `json:"memory_mib"`
	DiskGiB   int64 `json:"disk_gib"`
}

// Plus returns the sum of both.
func (c Capacity) Plus(d Capacity) Capacity {
	return Capacity{c.CPUs + d.CPUs, c.MemoryMiB + d.MemoryMiB, c.DiskGiB + d.DiskGiB}
}

// Minus returns what is left of c without d; it may be negative.
func (c Capacity) Minus(d Capacity) Capacity {
	return Capacity{c.CPUs - d.CPUs, c.MemoryMiB - d.MemoryMiB, c.DiskGiB - d.DiskGiB}
}

// Holds reports whether d fits into c.
func (c Capacity) Holds(d Capacity) bool {
	return d.CPUs <= c.CPUs && d.MemoryMiB <= c.MemoryMiB && d.DiskGiB <= c.DiskGiB
}

// NodeDriver is the driver that a node has for the operations of one module.
type NodeDriver struct {
	Module    string `json:"module"` // "volume"
	Name      string `json:"name"`   // "btrfs", "directory", "simulated"
	Simulated bool   `json:"simulated,omitempty"`
	Detail    string `json:"detail,omitempty"` // version, or why it is simulated
	Lacks     string `json:"lacks,omitempty"`  // what of the host is missing, so that the node makes nothing new with it; what it has of the module it keeps
	// Engines are the programs that it can serve with, best first, and then those that it has and refuses; none if there is only one way.
	Engines []Engine `json:"engines,omitempty"`
}

// Engine is one of the programs that a driver can serve with, as one node has it.
type Engine struct {
	Name    string `json:"name"` // "redis-server"
	Version string `json:"version,omitempty"`
	Refused string `json:"refused,omitempty"` // why it serves nothing that is made anew, "" if it does
}

// Does reports whether an engine can serve what asks for one of some names, any if there are none, and for a version, as far as that is
// given: 7 fits 7.2.4.
func (e Engine) Does(names []string, version string) bool {
	return e.Refused == "" && (len(names) == 0 || slices.Contains(names, e.Name)) && e.IsVersion(version)
}

// IsVersion reports whether the version is the one that is asked for, as far as that is given.
func (e Engine) IsVersion(asked string) bool {
	return asked == "" || e.Version == asked || strings.HasPrefix(e.Version, asked+".")
}

// String is what people read of an engine that serves.
func (e Engine) String() string { return strings.TrimSuffix(e.Name+" "+e.Version, " ") }

// Node is one host as its datacenter knows it.
type Node struct {
	ID         NodeID            `json:"id"`
	Datacenter DatacenterID      `json:"datacenter"`
	Name       string            `json:"name"`
	Key        string            `json:"key"` // fingerprint of its signing key, "SHA256:…"
	Admission  Admission         `json:"admission"`
	Gone       bool              `json:"gone,omitempty"`  // a person has signed that it never comes back
	Fence      *Fence            `json:"fence,omitempty"` // of what is gone: what becomes of what it had
	Scheduling Scheduling        `json:"scheduling"`
	Liveness   Liveness          `json:"liveness"`
	Labels     map[string]string `json:"labels,omitempty"` // as operators gave them to it; scripts ask for them
	Slots      int               `json:"slots"`
	Capacity   Capacity          `json:"capacity"`
	Used       Capacity          `json:"used"` // reserved by what was placed there
	Drivers    []NodeDriver      `json:"drivers,omitempty"`
	Version    string            `json:"version,omitempty"`
	Host       *Host             `json:"host,omitempty"`      // as of its last word about it
	Boot       string            `json:"boot,omitempty"`      // the kernel's id of this start of the machine
	Restarts   int               `json:"restarts,omitempty"`  // how often the supervisor saw that id change
	Online     []Online          `json:"online,omitempty"`    // in the last months, oldest first
	Transfers  string            `json:"transfers,omitempty"` // where it gives archives to other nodes, "host:port"; "" if it does not
	Fault      string            `json:"fault,omitempty"`     // why it gets no work, "" if it does
	Stuck      []Stuck           `json:"wedged,omitempty"`    // jobs there whose drivers ignore that their time is over
	Orphans    []Orphan          `json:"orphans,omitempty"`   // as of its last look
	Network    *NodeNetwork      `json:"network,omitempty"`   // likewise; nil if it makes no networks
	Disks      []Disk            `json:"disks,omitempty"`     // likewise; free space is accurate to a hundredth of the disk
	Revision   int               `json:"revision,omitempty"`  // how many decisions were made about it; statements name it
	Decided    []Decision        `json:"decided,omitempty"`   // the last decisions about it, oldest first
	Mended     int64             `json:"mended,omitempty"`    // how often it has mended a resource by itself since its runner was started
	Joined     time.Time         `json:"joined"`
	LastBeat   time.Time         `json:"last_beat,omitzero"`
}

// Online is how long a node was heard in a month, of the time in which its supervisor listened to it.
type Online struct {
	Month   string `json:"month"` // in UTC, "2026-11"
	Seconds int64  `json:"seconds"`
	Of      int64  `json:"of"` // seconds
}

// Decision is what a person signed about something, and why.
type Decision struct {
	Decision string    `json:"decision"` // as in the statement: "cordon"
	Signer   string    `json:"signer"`
	Reason   string    `json:"reason,omitempty"` // one line, as the person wrote it
	Time     time.Time `json:"time"`             // when the supervisor carried it out
}

// MaxDecisions is how many decisions are kept with what they are about.
const MaxDecisions = 5

// Fence is what becomes of what a node had that is gone. Its resources and calls may be made anew on other nodes, so if it comes back all the
// same, it stops what it runs and says so. Until then the same may run twice.
type Fence struct {
	Ordered time.Time `json:"ordered"` // when a person signed that it is gone
	// Superseded counts the resources and the calls under way that it had then.
	Superseded int       `json:"superseded"`
	Answered   time.Time `json:"answered,omitzero"` // when it said last what it did, zero if it never came back
	Stopped    int       `json:"stopped,omitempty"` // how many machines, containers and databases it has stopped
	Open       []string  `json:"open,omitempty"`    // what it could not stop yet, in sentences
}

// Obeyed reports whether the node has stopped everything.
func (f *Fence) Obeyed() bool { return f != nil && !f.Answered.IsZero() && len(f.Open) == 0 }

// MaxLabels is how many labels a node can have, and a call can ask for.
const MaxLabels = 32

var labelPattern = regexp.MustCompile(`^[A-Za-z0-9._/-]{0,63}$`)

// ValidLabel reports whether a label may be called so and have that value: a name as those of nodes, and up to 63 letters, digits, dots, underscores,
// slashes and hyphens.
func ValidLabel(name, value string) bool { return ValidName(name) && labelPattern.MatchString(value) }

// LabelsText writes labels for people, "disk=ssd, rack=a1".
func LabelsText(labels map[string]string) string {
	all := make([]string, 0, len(labels))
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		all = append(all, name+"="+labels[name])
	}
	return strings.Join(all, ", ")
}

// Orphan is something on a host that looks as if writ had made it, and that no resource has: it has a name or a mark that only writ gives, and
// no record of the node leads to it. Somebody removed a record, or put a disk back to an earlier day; a delete left what is another one's by
// now, as a socket at which a foreign process listens; or it is a record itself that cannot be read, and what that leads to. What a delete could not
// remove for another reason is no orphan yet: its record stays, with the state deleting and what is in the way as drift, and its node goes on
// trying. Nodes name orphans as long as they are there, and take none away but stray files of images: what others hold is not known.
type Orphan struct {
	Module string `json:"module"`           // of the driver that found it
	Kind   string `json:"kind"`             // "tap", "process", "subvolume"
	Name   string `json:"name"`             // as the host's own tools take it
	Of     string `json:"of,omitempty"`     // the host name of the resource that it was made for, as far as that can be told
	Remedy string `json:"remedy,omitempty"` // a line for a shell of the host that takes it away; "" where there is more to think about
}

// OrphanSuperseded begins the kinds of orphans that are resources of a node which is gone: the datacenter has forgotten them, and they hold what
// they held.
const OrphanSuperseded = "superseded"

// OrphanDamaged is the kind of an orphan that is the record of a resource, which cannot be read.
const OrphanDamaged = "damaged record"

// Datacenter is a site with one supervisor, as the roster names it.
type Datacenter struct {
	ID     DatacenterID      `json:"id"`
	Name   string            `json:"name"`
	Region string            `json:"region"`
	Labels map[string]string `json:"labels,omitempty"`
}

// QueueDepth counts the open calls of one node in its datacenter's journal.
type QueueDepth struct {
	Node     NodeID `json:"node"`
	NodeName string `json:"node_name"`
	Planned  int    `json:"planned"`
	Queued   int    `json:"queued"`
	Running  int    `json:"running"`
}

// MaxTokenUses is how many nodes one join token admits at most.
const MaxTokenUses = 1000

// JoinToken is a join token as its datacenter knows it. Only the holder of the token has its secret.
type JoinToken struct {
	ID         string       `json:"id"`
	Datacenter DatacenterID `json:"datacenter"`
	CreatedBy  string       `json:"created_by"`
	Expires    time.Time    `json:"expires"` // it was revoked if that is before its maker wanted it
	Uses       int          `json:"uses"`    // nodes that it admits
	Used       int          `json:"used"`
	Nodes      []string     `json:"nodes"` // names of those that it admitted
}
