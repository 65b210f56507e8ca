package btrfs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"writ"
	"writ/sal"
)

// freeze returns a read-only subvolume with what a tree holds, or with a snapshot of it, and what takes it away again.
func (p *Pool) freeze(ctx context.Context, name, snapshot string) (path string, thaw func() error, err error) {
	if err := p.begin(ctx, name); err != nil {
		return "", nil, err
	}
	path, err = p.source(name, snapshot)
	if err != nil || snapshot != "" {
		return path, func() error { return nil }, err
	}
	p.step("take a passing snapshot")
	if err := snapshotSubvolume(p.work(name), path, readOnly); err != nil {
		return "", nil, hostError("keep what the tree "+name+" holds", err)
	}
	return p.work(name), func() error { return p.clear(name) }, nil
}

// fill makes a tree of the one subvolume that receive makes in a directory, if check agrees to how many bytes its files have.
func (p *Pool) fill(ctx context.Context, name string, size int64, project writ.ProjectID, receive func(dir string) error, check func(bytes int64) error) error {
	if err := p.begin(ctx, name); err != nil {
		return err
	}
	tree, work := p.tree(name), p.work(name)
	p.step("make room")
	err := createSubvolume(work)
	if err == nil {
		p.step("receive")
		err = receive(work)
	}
	var received string
	if err == nil {
		received, err = p.received(work, check)
	}
	if err == nil {
		p.step("take what was received")
		err = snapshotSubvolume(tree, received, writable)
	}
	if err == nil {
		sal.InPlace(tree)
		err = setSize(tree, size) // the archive may bring another one along
	}
	if err == nil {
		err = p.bound(name, tree, size, project)
	}
	if err == nil {
		err = p.settleDisk(ctx, tree, size)
	}
	if err == nil {
		err = p.commit(tree, filepath.Dir(tree))
	}
	return hostError("receive the tree "+name, errors.Join(err, p.clear(name)))
}

// received finds the one subvolume in a directory.
func (p *Pool) received(work string, check func(bytes int64) error) (path string, err error) {
	all, err := names(work)
	if err != nil {
		return "", err
	}
	if len(all) != 1 {
		return "", writ.Errorf(writ.CodeArgumentsInvalid, "the archive has %d volumes, not one", len(all))
	}
	path = filepath.Join(work, all[0])
	if _, err := isSubvolume(path); err != nil {
		return "", err
	}
	total := int64(0)
	err = filepath.WalkDir(path, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		info, err := d.Info()
		if err == nil {
			total += info.Size()
		}
		return err
	})
	if err == nil {
		err = check(total)
	}
	return path, err
}

// settleDisk copies the disk in a received tree, if there is one: archives do not tell that it is written in place. It is as big as the
// tree then.
func (p *Pool) settleDisk(ctx context.Context, tree string, size int64) error {
	disk := filepath.Join(tree, sal.DiskName)
	info, err := os.Lstat(disk)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !info.Mode().IsRegular() {
		return nil
	}
	if err != nil {
		return err
	}
	old := disk + ".received"
	p.step("put the disk aside")
	if err := os.Rename(disk, old); err != nil {
		return err
	}
	if err := copyInPlace(ctx, disk, old, max(size, info.Size())); err != nil {
		return err
	}
	p.step("remove the received disk")
	return os.Remove(old)
}

func copyInPlace(ctx context.Context, to, from string, size int64) (err error) {
	source, err := os.Open(from)
	if err != nil {
		return err
	}
	defer source.Close()
	info, err := source.Stat()
	if err != nil {
		return err
	}
	f, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, info.Mode().Perm())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := sal.CopyData(ctx, f, source); err != nil {
		return err
	}
	if err := f.Truncate(size); err != nil {
		return err
	}
	return f.Sync()
}

// keep holds a tree against what it should be, and says what was wrong and whether it is right now.
func (p *Pool) keep(ctx context.Context, name string, size int64) (what string, mended bool, err error) {
	tree := p.tree(name)
	if there, err := isSubvolume(tree); err != nil || !there {
		return fmt.Sprintf("its content is gone: there is no subvolume %s", tree), false, nil
	}
	had, err := sizeOf(tree)
	if err != nil && !errors.Is(err, errNoSize) {
		return "", false, hostError("look at the tree "+name, err)
	}
	want, err := p.limitOf(name, size)
	if err != nil {
		return "", false, hostError("look at the quota of "+name, err)
	}
	id, err := subvolumeID(tree)
	if err != nil {
		return "", false, hostError("look at the tree "+name, err)
	}
	if is, err := groupLimit(p.Dir, group(0, id)); err == nil && is == want && had == size {
		return "", false, nil
	}
	if _, err := p.Make(ctx, name, size); err != nil {
		return "", false, err
	}
	return "its quota was not what it should be", true, nil
}
