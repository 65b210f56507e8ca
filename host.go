package writ

import "time"

// Host describes the machine of a node as the node reports it. The report is unverified. It is for people, except that
// a batch (identity.Batch) may admit a node by its serial number.
type Host struct {
	OS        string     `json:"os,omitempty"`     // "Debian GNU/Linux 12 (bookworm)"
	Image     string     `json:"image,omitempty"`  // node image version, "" if not booted from one
	Kernel    string     `json:"kernel,omitempty"` // as `uname -r` prints it
	Vendor    string     `json:"vendor,omitempty"`
	Product   string     `json:"product,omitempty"`
	Serial    string     `json:"serial,omitempty"` // readable only by root
	CPU       string     `json:"cpu,omitempty"`    // model
	MemoryMiB int64      `json:"memory_mib,omitempty"`
	Booted    time.Time  `json:"booted,omitzero"` // by the node's clock
	Disks     []HostDisk `json:"disks,omitempty"`
	NICs      []HostNIC  `json:"nics,omitempty"`
}

// HostDisk is a block device that is not a partition.
type HostDisk struct {
	Name       string     `json:"name"` // "nvme0n1"
	Bytes      int64      `json:"bytes"`
	Model      string     `json:"model,omitempty"`
	Serial     string     `json:"serial,omitempty"`
	Rotational bool       `json:"rotational,omitempty"`
	Parts      []HostPart `json:"parts,omitempty"` // partitions, or the disk itself if it is mounted or labelled
}

// HostPart is a partition or an unpartitioned disk, as the kernel reports it.
type HostPart struct {
	Name    string `json:"name"` // "nvme0n1p1"
	Bytes   int64  `json:"bytes"`
	Label   string `json:"label,omitempty"`
	Mounted string `json:"mounted,omitempty"` // the shortest mount point
}

// HostNIC is a network interface: a card, or a virtual interface on top of cards, such as a bond, bridge or VLAN.
type HostNIC struct {
	Name      string   `json:"name"` // "eth0"
	MAC       string   `json:"mac,omitempty"`
	Driver    string   `json:"driver,omitempty"`
	SpeedMbit int64    `json:"speed_mbit,omitempty"` // 0 if unknown
	Carrier   bool     `json:"carrier"`
	Addresses []string `json:"addresses,omitempty"`
}
