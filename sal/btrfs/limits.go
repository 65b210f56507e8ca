package btrfs

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"io/fs"

	"writ"
	"writ/sal"
)

// The kernel counts the metadata of a tree as part of its size. So the limit of a tree is slightly higher than the
// requested size. Otherwise, writes to the disk of a machine could fail before the disk is full.
const (
	slackShare = 32       // the limit is higher by 1/slackShare of the size
	slackBytes = 16 << 20 // and by this number of bytes
)

// limits enforces the sizes of trees and projects with quota groups of the kernel.
type limits struct {
	layout
	subvolumes
	shares *shares
}

// set sets the limit of a subvolume that is, or is about to become, the named tree. The limit never decreases. If the
// bound names a project, the tree then counts towards the share of that project.
func (l limits) set(name, subvolume string, bound sal.Bound) error {
	if err := l.deny(subvolume); err != nil { // before the subvolume gets its final path or any content
		return err
	}
	had, err := boundOf(subvolume)
	if err == nil {
		bound.Bytes = grown(had.Bytes, bound.Bytes)
	} else if !errors.Is(err, errNoSize) {
		return err
	}
	bound.Project = cmp.Or(bound.Project, had.Project)
	if bound.Project != "" {
		l.step("count for the project")
		if err := l.join(subvolume, bound.Project); err != nil {
			return err
		}
	}
	l.step("bound the tree")
	if limited := l.limit(name, subvolume, bound.Bytes); limited != nil {
		return limited
	}
	if err == nil && bound == had {
		return nil // writing the same bound would fail in a project that exceeds its share
	}
	l.step("note the bound") // last, because a full tree has no room for the bound until its limit grows
	return setBound(subvolume, bound)
}

// setCopied records the bound of a copy. The kernel gives a copy the limit of its source. If the source is full, that
// limit leaves no room for the bound. So setCopied removes the limit, and the caller then sets the limit of the copy.
func (l limits) setCopied(subvolume string, bound sal.Bound) error {
	id, err := subvolumeID(subvolume)
	if err != nil {
		return err
	}
	l.step("lift the limit of a copy")
	if err := limitGroup(l.dir, group(0, id), 0); err != nil {
		return err
	}
	return setBound(subvolume, bound)
}

// grown returns the new size of a tree, in bytes, which is never smaller than the previous size; 0 means unlimited.
func grown(had, bytes int64) int64 {
	if had == 0 || bytes == 0 {
		return 0 // unlimited
	}
	return max(had, bytes)
}

// update updates the limit of a tree after its number of snapshots has changed.
func (l limits) update(name string) error {
	bound, err := boundOf(l.Path(name))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, errNoSize) {
		return nil
	}
	if err != nil {
		return err
	}
	l.step("bound the tree")
	return l.limit(name, l.Path(name), bound.Bytes)
}

// keep reports whether the kernel still has the right limit for a tree. If it has, keep updates the limit of the tree's
// project.
func (l limits) keep(name string, bound sal.Bound) (intact bool, err error) {
	tree := l.Path(name)
	had, err := boundOf(tree)
	if err != nil && !errors.Is(err, errNoSize) {
		return false, sal.HostError("inspect the tree "+name, err)
	}
	if err == nil {
		bound.Bytes = grown(had.Bytes, bound.Bytes)
	}
	want, err := l.of(name, bound.Bytes)
	if err != nil {
		return false, sal.HostError("read the quota of "+name, err)
	}
	id, err := subvolumeID(tree)
	if err != nil {
		return false, sal.HostError("inspect the tree "+name, err)
	}
	if is, err := groupLimit(l.dir, group(0, id)); err != nil || is != want || had.Bytes != bound.Bytes {
		return false, nil
	}
	return true, sal.HostError("set the quota of a project", l.keepProject(had.Project))
}

// limit sets the limit of a subvolume that belongs to the named tree.
func (l limits) limit(name, subvolume string, size int64) error {
	bytes, err := l.of(name, size)
	if err != nil {
		return err
	}
	id, err := subvolumeID(subvolume)
	if err != nil {
		return err
	}
	return limitGroup(l.dir, group(0, id), bytes)
}

// of returns the limit, in bytes, that the kernel gets for the named tree if its bound is `size`; 0 means unlimited.
func (l limits) of(name string, size int64) (bytes int64, err error) {
	if size == 0 {
		return 0, nil
	}
	bytes = size + size/slackShare + slackBytes
	simple, err := simpleQuota(l.dir)
	if err != nil {
		return 0, err
	}
	if simple {
		// Simple quotas charge a block to the subvolume that wrote it, as long as any subvolume uses the block. So the tree
		// pays for the blocks that only its snapshots use, up to its whole size for each snapshot. Without a higher limit,
		// writes to the disk of a machine could fail.
		kept, err := sal.FileNames(l.snapshots(name))
		if err != nil {
			return 0, err
		}
		bytes *= int64(1 + len(kept))
	}
	return bytes, nil
}

// join adds a subvolume to its project. With full quotas, only an empty subvolume can be added, because the kernel
// would otherwise have to rescan the whole file system. So clones and restored trees keep the project of their source,
// or have no project before Linux 6.9.
func (l limits) join(subvolume string, project writ.ProjectID) error {
	simple, err := simpleQuota(l.dir)
	if err != nil {
		return err
	}
	if !simple {
		if inside, err := sal.FileNames(subvolume); err != nil || len(inside) > 0 {
			return err
		}
	}
	id, err := subvolumeID(subvolume)
	if err != nil {
		return err
	}
	parent := projectGroup(project)
	if err := makeGroup(l.dir, parent); err != nil {
		return err
	}
	most, err := l.shares.kernelLimit(project)
	if err != nil {
		return err
	}
	if err := limitGroup(l.dir, parent, most); err != nil {
		return err
	}
	return joinGroup(l.dir, group(0, id), parent)
}

// keepProject updates the kernel's limit of a project, if the project has a quota group. This is necessary if its share
// has changed since its last tree was created.
func (l limits) keepProject(project writ.ProjectID) error {
	if project == "" {
		return nil
	}
	is, err := groupLimit(l.dir, projectGroup(project))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	most, err := l.shares.kernelLimit(project)
	if err != nil || is == most {
		return err
	}
	l.step("bound the project")
	return limitGroup(l.dir, projectGroup(project), most)
}

// group returns the id of a quota group: level 0 for subvolumes, level 1 for projects.
func group(level, id uint64) uint64 { return level<<48 | id }

// projectGroup returns the group of all trees of a project.
func projectGroup(project writ.ProjectID) uint64 {
	sum := sha256.Sum256([]byte(project))
	return group(1, binary.BigEndian.Uint64(sum[:])>>16)
}
