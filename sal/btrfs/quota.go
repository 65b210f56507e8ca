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

// The kernel also charges a tree's metadata to it, and the disk of a machine must never fail for that reason. So the
// limit is slightly higher than the requested size.
const (
	slackShare = 32       // one part in this many
	slackBytes = 16 << 20 // plus this many bytes
)

// bound sets the limit of a subvolume that is, or is about to become, the named tree. The limit never decreases. The
// tree counts for the bound's project from then on, if that is set.
func (p *Pool) bound(name, subvolume string, bound sal.Bound) error {
	if err := p.deny(subvolume); err != nil { // before the subvolume gets its place or any content
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
		p.step("count for the project")
		if err := p.count(subvolume, bound.Project); err != nil {
			return err
		}
	}
	p.step("bound the tree")
	if limited := p.limit(name, subvolume, bound.Bytes); limited != nil {
		return limited
	}
	if err == nil && bound == had {
		return nil // writing it again would fail in a project that exceeds its share
	}
	p.step("note the bound") // last, because a full tree has no room for it until its limit grows
	return setBound(subvolume, bound)
}

// grown returns the new bound of a tree that had a bound: it never shrinks.
func grown(had, bytes int64) int64 {
	if had == 0 || bytes == 0 {
		return 0 // unlimited
	}
	return max(had, bytes)
}

// rebound updates the limit of a tree after its number of snapshots has changed.
func (p *Pool) rebound(name string) error {
	bound, err := boundOf(p.Path(name))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, errNoSize) {
		return nil
	}
	if err != nil {
		return err
	}
	p.step("bound the tree")
	return p.limit(name, p.Path(name), bound.Bytes)
}

func (p *Pool) limit(name, subvolume string, size int64) error {
	bytes, err := p.limitOf(name, size)
	if err != nil {
		return err
	}
	id, err := subvolumeID(subvolume)
	if err != nil {
		return err
	}
	return limitGroup(p.Dir, group(0, id), bytes)
}

// limitOf returns the kernel's limit for a tree of a size; 0 means unlimited.
func (p *Pool) limitOf(name string, size int64) (bytes int64, err error) {
	if size == 0 {
		return 0, nil
	}
	bytes = size + size/slackShare + slackBytes
	simple, err := simpleQuota(p.Dir)
	if err != nil {
		return 0, err
	}
	if simple {
		// Simple quotas charge a block to the subvolume that wrote it as long as any subvolume uses it. Each snapshot
		// may hold as much as the tree could hold at that time, and the disk of a machine must not fail because of
		// that.
		kept, err := sal.FileNames(p.snapshot(name, ""))
		if err != nil {
			return 0, err
		}
		bytes *= int64(1 + len(kept))
	}
	return bytes, nil
}

// count adds a subvolume to its project. With full quotas, only an empty subvolume can be added, because the kernel
// would otherwise have to rescan the whole file system: clones and restored trees do not count there.
func (p *Pool) count(subvolume string, project writ.ProjectID) error {
	simple, err := simpleQuota(p.Dir)
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
	if err := makeGroup(p.Dir, parent); err != nil {
		return err
	}
	most, err := p.shareLimit(project)
	if err != nil {
		return err
	}
	if err := limitGroup(p.Dir, parent, most); err != nil {
		return err
	}
	return joinGroup(p.Dir, group(0, id), parent)
}

// keepShare updates the limit of a project, if it has one and ProjectBytes has changed since its last tree was created.
func (p *Pool) keepShare(project writ.ProjectID) error {
	if project == "" {
		return nil
	}
	is, err := groupLimit(p.Dir, projectGroup(project))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	most, err := p.shareLimit(project)
	if err != nil || is == most {
		return err
	}
	p.step("bound the project")
	return limitGroup(p.Dir, projectGroup(project), most)
}

// group returns the id of a quota group: level 0 for subvolumes, level 1 for projects.
func group(level, id uint64) uint64 { return level<<48 | id }

// projectGroup returns the group of all trees of a project.
func projectGroup(project writ.ProjectID) uint64 {
	sum := sha256.Sum256([]byte(project))
	return group(1, binary.BigEndian.Uint64(sum[:])>>16)
}

// Used returns the bytes charged to a tree, as of the last commit of the file system.
func (p *Pool) Used(name string) (int64, error) {
	if err := sal.ValidTree(name); err != nil {
		return 0, err
	}
	id, err := subvolumeID(p.Path(name))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, sal.UnknownTree(name)
	}
	var used int64
	if err == nil {
		used, err = groupUsage(p.Dir, group(0, id))
		err = groupError(p.Dir, err)
	}
	return used, sal.HostError("read the quota of "+name, err)
}

// ProjectUsed returns the bytes charged to all trees of a project.
func (p *Pool) ProjectUsed(project writ.ProjectID) (int64, error) {
	used, err := groupUsage(p.Dir, projectGroup(project))
	err = groupError(p.Dir, err)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, sal.HostError("read the quota of a project", err)
	}
	return used, nil
}
