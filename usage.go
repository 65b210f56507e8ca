package writ

import "time"

// Usage is the use of a node by one resource within an hour, up to the last report. The numbers only grow: of two
// reports for the same resource, node and hour, the larger value of each number is correct. Runners sample it; see
// package runner.
type Usage struct {
	ResourceID
	UID  UID       `json:"uid"`
	Node NodeID    `json:"node"`
	Hour time.Time `json:"hour"` // start of the hour, by the node's clock
	Used
}

// Used is an amount of use. It counts the capacity reserved for a resource, even if the resource is idle.
type Used struct {
	CPUSeconds       int64 `json:"cpu_seconds"`        // virtual CPUs × seconds of running time
	MemoryMiBSeconds int64 `json:"memory_mib_seconds"` // MiB × seconds of running time
	DiskGiBSeconds   int64 `json:"disk_gib_seconds"`   // GiB × seconds
	Received         int64 `json:"received"`           // bytes
	Sent             int64 `json:"sent"`               // bytes
}

// Plus returns u + v.
func (u Used) Plus(v Used) Used {
	return Used{
		u.CPUSeconds + v.CPUSeconds, u.MemoryMiBSeconds + v.MemoryMiBSeconds, u.DiskGiBSeconds + v.DiskGiBSeconds,
		u.Received + v.Received, u.Sent + v.Sent,
	}
}

// Most returns the maximum of each number.
func (u Used) Most(v Used) Used {
	return Used{
		max(u.CPUSeconds, v.CPUSeconds), max(u.MemoryMiBSeconds, v.MemoryMiBSeconds), max(u.DiskGiBSeconds, v.DiskGiBSeconds),
		max(u.Received, v.Received), max(u.Sent, v.Sent),
	}
}
