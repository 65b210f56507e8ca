package runner

import (
	"context"

	"writ"
)

// disks returns the file systems with data of the node, for a report. If a file system does not answer, the report is
// sent without disks.
func (k *keeper) disks(ctx context.Context) []writ.Disk {
	if k.incarnation.disks == nil {
		return nil
	}
	disks, err := asked(ctx, k, "disks", hostFor,
		func(context.Context) ([]writ.Disk, error) { return k.incarnation.disks(), nil })
	if err != nil {
		k.log.WarnContext(ctx, "measure the disks", "err", err)
		return nil
	}
	for _, d := range disks {
		if d.AlmostFull() && !k.fullDisks[d.Path] {
			k.log.WarnContext(ctx, "a disk is almost full", "disk", d.String())
		}
		k.fullDisks[d.Path] = d.AlmostFull()
	}
	return disks
}
