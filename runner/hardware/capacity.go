package hardware

import (
	"cmp"
	"runtime"

	"writ"
)

// Capacity fills the fields of `given` that are 0 with the host's capacity.
func Capacity(dir string, given writ.Capacity) (writ.Capacity, error) {
	if given.CPUs != 0 && given.MemoryMiB != 0 && given.DiskGiB != 0 {
		return given, nil
	}
	memoryMiB, diskGiB, err := measure(dir)
	if err != nil {
		return given, err
	}
	return writ.Capacity{
		CPUs:      cmp.Or(given.CPUs, int64(runtime.NumCPU())),
		MemoryMiB: cmp.Or(given.MemoryMiB, spared(memoryMiB, ownMemoryMiB)),
		DiskGiB:   cmp.Or(given.DiskGiB, spared(diskGiB, 0)),
	}, nil
}

// ownMemoryMiB is the minimum that the operating system of a node, its runner and its daemons need.
const ownMemoryMiB = 512

// spared returns the part of the capacity `has` that a host offers. It reserves a twentieth, for the overhead of
// machines and other data on the disk, but at least `least` and at most half.
func spared(has, least int64) int64 {
	return has - min(max(has/20, least), has/2)
}
