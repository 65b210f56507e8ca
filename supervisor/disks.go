package supervisor

import (
	"slices"

	"writ"
)

// steadyPart sets the smallest change of free space that is shown: the size of the disk divided by steadyPart. Each shown
// change is an event.
const steadyPart = 100

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
