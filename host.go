package writ

import "time"

// Host is the machine of a node, in the node's own words. They prove nothing. People read them; a batch may admit a node by the serial number.
type Host struct {
	OS        string     `json:"os,omitempty"`     // "Debian GNU/Linux 12 (bookworm)"
	Image     string     `json:"image,omitempty"`  // version of the node image from which the machine started, "" if from none
	Kernel    string     `json:"kernel,omitempty"` // as `uname -r` says
	Vendor    string     `json:"vendor,omitempty"`
	Product   string     `json:"product,omitempty"`
	Serial    string     `json:"serial,omitempty"` // which only root can read
	CPU       string     `json:"cpu,omitempty"`    // its model
	MemoryMiB int64      `json:"memory_mib,omitempty"`
	Booted    time.Time  `json:"booted,omitzero"` // by the node's clock
	Disks     []HostDisk `json:"disks,omitempty"`
	NICs      []HostNIC  `json:"nics,omitempty"`
}

// HostDisk is a block device that is no partition of another.
type HostDisk struct {
	Name       string     `json:"name"` // "nvme0n1"
	Bytes      int64      `json:"bytes"`
	Model      string     `json:"model,omitempty"`
	Serial     string     `json:"serial,omitempty"`
	Rotational bool       `json:"rotational,omitempty"`
	Parts      []HostPart `json:"parts,omitempty"` // partitions, or the disk itself if it is mounted or has a label
}

// HostPart is what is on a disk, as far as the kernel knows it.
type HostPart struct {
	Name    string `json:"name"` // "nvme0n1p1"
	Bytes   int64  `json:"bytes"`
	Label   string `json:"label,omitempty"`
	Mounted string `json:"mounted,omitempty"` // where; of several places the shortest
}

// HostNIC is a network card, or what stands for several or for a part of one.
type HostNIC struct {
	Name      string   `json:"name"` // "eth0"
	MAC       string   `json:"mac,omitempty"`
	Driver    string   `json:"driver,omitempty"`
	SpeedMbit int64    `json:"speed_mbit,omitempty"` // 0 if it is not known
	Carrier   bool     `json:"carrier"`
	Addresses []string `json:"addresses,omitempty"`
}
