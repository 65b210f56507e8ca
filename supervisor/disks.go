package supervisor

import (
	"slices"

	"writ"
)

const (
	// maxDisks bounds the disks of a node.
	maxDisks = 32
	// maxDiskBytes is more than any disk has.
	maxDiskBytes = 1 << 60
	// steadyPart is the part of a disk by which its free space has to change before readers hear of it: each change is an event.
	steadyPart = 100
)

// moderateDisks cuts down the disks in a report of a node.
func moderateDisks(all []writ.Disk) []writ.Disk {
	var kept []writ.Disk
	for _, d := range all[:min(len(all), maxDisks)] {
		d.Path, d.Bytes = hostWord(d.Path), min(max(d.Bytes, 0), maxDiskBytes)
		d.Free = min(max(d.Free, 0), d.Bytes)
		if !slices.ContainsFunc(kept, func(k writ.Disk) bool { return k.Path == d.Path }) {
			kept = append(kept, d)
		}
	}
	return kept
}

// steadyDisks merges the disks of a new report into the shown ones. The shown free space of a disk changes by steps of at least a hundredth of the
// disk, and whenever AlmostFull changes.
func steadyDisks(shown, reported []writ.Disk) []writ.Disk {
	next := slices.Clone(reported)
	for i := range next {
		d := &next[i]
		j := slices.IndexFunc(shown, func(s writ.Disk) bool { return s.Path == d.Path && s.Bytes == d.Bytes })
		if j >= 0 && max(shown[j].Free-d.Free, d.Free-shown[j].Free) < d.Bytes/steadyPart && shown[j].AlmostFull() == d.AlmostFull() {
			d.Free = shown[j].Free
		}
	}
	return next
}
