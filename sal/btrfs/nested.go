package btrfs

import (
	"errors"
	"fmt"

	"writ"
	"writ/sal"
)

// A process that can write to a tree can usually create subvolumes in the tree. Snapshots of the tree do not include
// such subvolumes, and its size limit does not apply to them. So the pool refuses snapshots, copies and restores of a
// tree that contains subvolumes.

// nested is a subvolume directly inside another subvolume.
type nested struct {
	id   uint64 // number of the subvolume
	dir  uint64 // inode of the directory that contains it
	name string
}

// checkNoNested returns RESOURCE_CONFLICT if a tree contains subvolumes.
func checkNoNested(name, subvolume string) error {
	found, err := describeNested(subvolume)
	if err != nil || found == "" {
		return err
	}
	return writ.Errorf(writ.CodeResourceConflict,
		"the tree %s contains %s: snapshots and copies would omit it, and a restore would destroy it",
		name, found).WithHint("copy its content to a directory and remove it with rm -r, then try again")
}

// nestedDrift returns a drift if a tree contains subvolumes.
func nestedDrift(subvolume string) ([]sal.Drift, error) {
	found, err := describeNested(subvolume)
	if err != nil || found == "" {
		return nil, err
	}
	return []sal.Drift{{What: "it contains " + found +
		", which its size does not limit and snapshots, copies and backups omit: " +
		"copy the content to a directory and remove it with rm -r"}}, nil
}

// describeNested describes the subvolumes directly inside a subvolume. It returns "" if none exist.
func describeNested(subvolume string) (string, error) {
	id, err := subvolumeID(subvolume)
	if err != nil {
		return "", err
	}
	all, err := nestedIn(subvolume, id)
	if err != nil || len(all) == 0 {
		return "", err
	}
	where, err := nestedPath(subvolume, id, all[0])
	if err != nil {
		where = all[0].name // the path is too long for the kernel, or the subvolume was removed meanwhile
	}
	if others := len(all) - 1; others > 0 {
		return fmt.Sprintf("the btrfs subvolume %q and %d more", where, others), nil
	}
	return fmt.Sprintf("the btrfs subvolume %q", where), nil
}

// snapshotWhole creates a snapshot of a tree, and verifies that the tree contains no subvolumes, which the snapshot
// would omit.
func snapshotWhole(to, name, from string, readOnly bool) error {
	if err := checkNoNested(name, from); err != nil {
		return err
	}
	if err := snapshotSubvolume(to, from, readOnly); err != nil {
		return err
	}
	if err := checkNoNested(name, from); err != nil { // created meanwhile
		return errors.Join(err, deleteSubvolume(to))
	}
	return nil
}
