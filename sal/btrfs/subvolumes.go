package btrfs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"writ/sal"
)

// subvolumes changes subvolumes of a pool.
type subvolumes struct {
	step   func(name string) // called before every single change
	denied uint32            // group whose members must not read trees; 0 means no group
}

// commit syncs directories, so that created, renamed and removed entries survive a power cut. A missing directory is
// not an error.
func (s subvolumes) commit(dirs ...string) error {
	for _, dir := range dirs {
		s.step("commit")
		if err := sal.SyncDir(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// destroy removes a subvolume and all subvolumes inside it, at any depth. A missing subvolume is not an error.
//
//failpoint:steps clear work; remove the tree; remove the snapshot
func (s subvolumes) destroy(step, path string) error {
	there, err := isSubvolume(path)
	if err != nil || !there {
		return err
	}
	s.step(step)
	id, err := subvolumeID(path)
	if err != nil {
		return err
	}
	if err := s.destroyNested(path, id); err != nil {
		return fmt.Errorf("remove nested subvolumes: %w", err)
	}
	return deleteSubvolume(path)
}

// destroyNested removes all subvolumes inside another one. It finds them by number, so an attacker cannot prevent the
// removal by long names or deep nesting. dir is any directory of the file system.
func (s subvolumes) destroyNested(dir string, in uint64) error {
	all, err := nestedIn(dir, in)
	if err != nil {
		return err
	}
	for _, n := range all {
		if err := s.destroyNested(dir, n.id); err != nil {
			return err
		}
		s.step("remove a nested subvolume")
		if err := deleteNested(dir, in, n); err != nil {
			return err
		}
	}
	return nil
}

// destroySnapshots removes the directory of a tree's snapshots with all snapshots in it.
//
//failpoint:none it removes an empty directory
func (s subvolumes) destroySnapshots(at layout, name string) error {
	all, err := sal.FileNames(at.snapshots(name))
	if err != nil {
		return err
	}
	for _, snapshot := range all {
		if err := s.destroy("remove the snapshot", at.snapshot(name, snapshot)); err != nil {
			return err
		}
	}
	if err := os.Remove(at.snapshots(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
