package writ

import "time"

// Usage is what one resource has used of its node within an hour, so far. It only grows: whoever has two of the same resource, node and hour
// keeps the greater of each number. It is sampled, see package runner.
type Usage struct {
	ResourceID
	UID  UID       `json:"uid"`
	Node NodeID    `json:"node"`
	Hour time.Time `json:"hour"` // when it began, by the node's clock
	Used
}

// Used is an amount of use. Whatever is kept for a resource counts, whether it works or not.
type Used struct {
	CPUSeconds       int64 `json:"cpu_seconds"`        // virtual CPUs × seconds while it ran
	MemoryMiBSeconds int64 `json:"memory_mib_seconds"` // MiB × seconds while it ran
	DiskGiBSeconds   int64 `json:"disk_gib_seconds"`   // GiB × seconds
	Received         int64 `json:"received"`           // bytes
	Sent             int64 `json:"sent"`               // bytes
}

// Plus returns the sum of both.
func (u Used) Plus(v Used) Used {
	return Used{
		u.CPUSeconds + v.CPUSeconds, u.MemoryMiBSeconds + v.MemoryMiBSeconds, u.DiskGiBSeconds + v.DiskGiBSeconds,
		u.Received + v.Received, u.Sent + v.Sent,
	}
}

// Most returns the greater of each number.
func (u Used) Most(v Used) Used {
	return Used{
		max(u.CPUSeconds, v.CPUSeconds), max(u.MemoryMiBSeconds, v.MemoryMiBSeconds), max(u.DiskGiBSeconds, v.DiskGiBSeconds),
		max(u.Received, v.Received), max(u.Sent, v.Sent),
	}
}
