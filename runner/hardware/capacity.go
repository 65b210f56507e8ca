package hardware

import (
	"cmp"
	"runtime"

	"writ"
)

// Capacity fills the fields of `given` that are 0 with the host's CPUs, its memory, and the size of the disk that holds
// dir. It subtracts a reserve from memory and disk.
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

// ownMemoryMiB is the minimum memory that the operating system of a node, its runner and its daemons need together.
const ownMemoryMiB = 512

// spared returns the part of the capacity `has` that a host offers. It reserves a twentieth, but at least `least` and
// at most half, for the overhead of machines and for other data on the disk.
func spared(has, least int64) int64 {
	return has - min(max(has/20, least), has/2)
}
