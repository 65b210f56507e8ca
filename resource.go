package writ

import (
	"cmp"
	"crypto/sha256"
	"time"
)

// ResourceKind is a kind of resource.
type ResourceKind string

// The resource kinds.
const (
	KindMachine   ResourceKind = "machine"
	KindContainer ResourceKind = "container"
	KindVolume    ResourceKind = "volume"
	KindImage     ResourceKind = "image"
	KindNetwork   ResourceKind = "network"
	KindHeroDB    ResourceKind = "herodb"
)

// ResourceKinds lists the kinds of resources in the order of lists.
var ResourceKinds = []ResourceKind{KindMachine, KindContainer, KindVolume, KindImage, KindNetwork, KindHeroDB}

// ResourceID identifies a resource within its datacenter.
type ResourceID struct {
	Project ProjectID    `json:"project"`
	Kind    ResourceKind `json:"kind"`
	Name    string       `json:"name"`
}

// HostName returns the resource's name for interfaces, subvolumes, directories and ids on hosts. It is the first letter
// of the kind and 10 base32 characters of SHA-256(project, kind, name). Linux allows 15 characters for interfaces.
func (r ResourceID) HostName() string {
	sum := sha256.Sum256([]byte(string(r.Project) + "\x00" + string(r.Kind) + "\x00" + r.Name))
	return string(r.Kind[:1]) + lowerBase32.EncodeToString(sum[:])[:10]
}

// String formats the resource for people: "machine web-0".
func (r ResourceID) String() string { return string(r.Kind) + " " + r.Name }

// Compare orders resources by project, kind and name.
func (r ResourceID) Compare(s ResourceID) int {
	return cmp.Or(cmp.Compare(r.Project, s.Project), cmp.Compare(r.Kind, s.Kind), cmp.Compare(r.Name, s.Name))
}

// Ref is a handle to a resource among the arguments of a job.
type Ref struct {
	Kind ResourceKind `json:"kind"`
	Name string       `json:"name"`
	UID  UID          `json:"uid"`
}

// Change is the effect of an operation on its resource.
type Change string

// The changes. Operations that only read have ChangeNone.
const (
	ChangeNone      Change = ""
	ChangeCreated   Change = "created"
	ChangeUpdated   Change = "updated"
	ChangeUnchanged Change = "unchanged"
	ChangeDeleted   Change = "deleted"
)

// Resource is a resource as its datacenter records it, or the ledger's copy of that record.
type Resource struct {
	ResourceID
	UID        UID            `json:"uid"`
	Datacenter DatacenterID   `json:"datacenter"`
	Node       NodeID         `json:"node,omitempty"`
	Deployment string         `json:"deployment,omitempty"` // owner; "" for the project itself
	Driver     string         `json:"driver"`
	Simulated  bool           `json:"simulated,omitempty"`
	Values     map[string]any `json:"values,omitempty"` // fields of the last result; only in the datacenter's record
	Run        RunID          `json:"run"`              // the last run that changed it
	Created    time.Time      `json:"created"`
	Updated    time.Time      `json:"updated"`
	Deleted    bool           `json:"deleted,omitempty"` // only in events: the resource was deleted
	Standing
	// Drift lists the differences from the requested state, as sentences, from the node's last scan. It may be empty.
	Drift []string `json:"drift,omitempty"`
	// Mended lists the latest repairs by the node, oldest first.
	Mended []Mending `json:"mended,omitempty"`
}

// Mending is a repair: the node found a difference from the requested state and removed it.
type Mending struct {
	// Number counts the repairs of the resource, from 1. A gap means that there were too many repairs to report each.
	Number int64     `json:"number"`
	Time   time.Time `json:"time"` // by the node's clock
	What   string    `json:"what"` // sentences about the difference
}
