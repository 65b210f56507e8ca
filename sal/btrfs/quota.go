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

// A tree's own bookkeeping is charged to it too, and must never be what a machine's disk fails at: so a bound is a little higher than what
// was asked for.
const (
	slackShare = 32       // one part in so many
	slackBytes = 16 << 20 // and this besides
)

// bound sets how much a subvolume may hold that is, or is about to become, the tree of a name: at least what it could hold before. It
// counts for the bound's project from then on, if that names one.
func (p *Pool) bound(name, subvolume string, bound sal.Bound) error {
	if err := p.deny(subvolume); err != nil { // before the tree gets its place, or anything is in it
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
		return nil // noting it anew would fail in a project that holds more than it may by now
	}
	p.step("note the bound") // which a full tree has no room for until it may hold more
	return setBound(subvolume, bound)
}

// grown is the bound of a tree that had one and is asked to have another: it never shrinks.
func grown(had, bytes int64) int64 {
	if had == 0 || bytes == 0 {
		return 0 // unbounded
	}
	return max(had, bytes)
}

// rebound sets the bound of a tree anew after the number of its snapshots has changed.
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

// limitOf is what the kernel is told to let a tree of a size have; 0 is unbounded.
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
		// Simple quotas charge a block to the subvolume that wrote it for as long as anybody has it. Each snapshot may keep as much as
		// the tree could hold then, and a disk must not fail because of that.
		kept, err := sal.FileNames(p.snapshot(name, ""))
		if err != nil {
			return 0, err
		}
		bytes *= int64(1 + len(kept))
	}
	return bytes, nil
}

// count lets a subvolume count for a project. With full quota groups only an empty one can, or the kernel would have to count the whole
// file system anew: there, clones and what was restored do not count.
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

// keepShare sets the bound of a project that has one, if it is to be another than it was when the last tree of it was made.
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

// group is the id of a quota group: of a subvolume on level 0, of what counts together on level 1.
func group(level, id uint64) uint64 { return level<<48 | id }

// projectGroup is the group of all trees that count for a project.
func projectGroup(project writ.ProjectID) uint64 {
	sum := sha256.Sum256([]byte(project))
	return group(1, binary.BigEndian.Uint64(sum[:])>>16)
}

// Used is how many bytes are charged to a tree at the moment, as of the file system's last commit.
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
	return used, sal.HostError("look at the quota of "+name, err)
}

// ProjectUsed is how many bytes are charged to all trees that count for a project.
func (p *Pool) ProjectUsed(project writ.ProjectID) (int64, error) {
	used, err := groupUsage(p.Dir, projectGroup(project))
	err = groupError(p.Dir, err)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, sal.HostError("look at the quota of a project", err)
	}
	return used, nil
}
