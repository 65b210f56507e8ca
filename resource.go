package writ

import (
	"cmp"
	"crypto/sha256"
	"time"
)

// ResourceKind is a kind of thing that operations make.
type ResourceKind string

// The kinds of resources.
const (
	KindMachine   ResourceKind = "machine"
	KindContainer ResourceKind = "container"
	KindVolume    ResourceKind = "volume"
	KindImage     ResourceKind = "image"
	KindNetwork   ResourceKind = "network"
	KindHeroDB    ResourceKind = "herodb"
)

// ResourceID names a resource inside its datacenter.
type ResourceID struct {
	Project ProjectID    `json:"project"`
	Kind    ResourceKind `json:"kind"`
	Name    string       `json:"name"`
}

// HostName is the name of the resource on hosts (interfaces, subvolumes, directories, ids): the first letter of its kind and
// 10 base32 characters of SHA-256(project, kind, name), so 11 characters that fit Linux's 15 for an interface.
func (r ResourceID) HostName() string {
	sum := sha256.Sum256([]byte(string(r.Project) + "\x00" + string(r.Kind) + "\x00" + r.Name))
	return string(r.Kind[:1]) + lowerBase32.EncodeToString(sum[:])[:10]
}

// String is how the resource is shown: "machine web-0".
func (r ResourceID) String() string { return string(r.Kind) + " " + r.Name }

// Compare orders resources by project, kind and name.
func (r ResourceID) Compare(s ResourceID) int {
	return cmp.Or(cmp.Compare(r.Project, s.Project), cmp.Compare(r.Kind, s.Kind), cmp.Compare(r.Name, s.Name))
}

// Ref is a handle to a resource as an argument of a job.
type Ref struct {
	Kind ResourceKind `json:"kind"`
	Name string       `json:"name"`
	UID  UID          `json:"uid"`
}

// Change says what an operation did to its resource.
type Change string

// The changes. ChangeNone is that of operations that only look.
const (
	ChangeNone      Change = ""
	ChangeCreated   Change = "created"
	ChangeUpdated   Change = "updated"
	ChangeUnchanged Change = "unchanged"
	ChangeDeleted   Change = "deleted"
)

// Resource is a record of something that operations made: the datacenter's own, or the ledger's copy of it.
type Resource struct {
	ResourceID
	UID        UID            `json:"uid"`
	Datacenter DatacenterID   `json:"datacenter"`
	Node       NodeID         `json:"node,omitempty"`
	Deployment string         `json:"deployment,omitempty"` // the owner; "" is the project itself
	Driver     string         `json:"driver"`
	Simulated  bool           `json:"simulated,omitempty"`
	Values     map[string]any `json:"values,omitempty"` // the fields of the last result; only the datacenter has them
	Run        RunID          `json:"run"`              // the last run that changed it
	Created    time.Time      `json:"created"`
	Updated    time.Time      `json:"updated"`
	Deleted    bool           `json:"deleted,omitempty"` // only in events: it is gone
	Standing
	// Drift says how the resource differs from what was asked for, in sentences, as of its node's last look; none if it does not.
	Drift []string `json:"drift,omitempty"`
	// Mended are the last things that its node put right by itself, oldest first. Each that is told is an event of the resource, in which it
	// is the last one.
	Mended []Mending `json:"mended,omitempty"`
}

// Mending is something in which a resource differed from what was asked for, until its node put it right.
type Mending struct {
	// Number counts what was mended of the resource, from 1. Where numbers are missing there was too much to tell of each.
	Number int64     `json:"number"`
	Time   time.Time `json:"time"` // by the node's clock
	What   string    `json:"what"` // in sentences
}
