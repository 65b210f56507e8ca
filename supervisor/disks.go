package supervisor

import (
	"slices"

	"writ"
)

const (
	// maxDisks bounds the disks of a node.
	maxDisks = 32
	// maxDiskBytes exceeds the size of any real disk.
	maxDiskBytes = 1 << 60
	// steadyPart sets the smallest change of free space that is shown: the size of the disk divided by steadyPart. Each
	// shown change is an event.
	steadyPart = 100
)

// moderateDisks limits the disks in a node's report to valid values and removes duplicate paths.
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

// steadyDisks merges the disks of a new report into the shown ones. The shown free space of a disk changes only if it
// moves by a hundredth of the disk or more, or if AlmostFull changes.
func steadyDisks(shown, reported []writ.Disk) []writ.Disk {
	next := slices.Clone(reported)
	for i := range next {
		d := &next[i]
		j := slices.IndexFunc(shown, func(s writ.Disk) bool { return s.Path == d.Path && s.Bytes == d.Bytes })
		if j >= 0 && max(shown[j].Free-d.Free, d.Free-shown[j].Free) < d.Bytes/steadyPart &&
			shown[j].AlmostFull() == d.AlmostFull() {
			d.Free = shown[j].Free
		}
	}
	return next
}
