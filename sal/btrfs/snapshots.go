package btrfs

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"writ/sal"
)

// Snapshot creates a snapshot of a tree.
func (p *Pool) Snapshot(ctx context.Context, name, snapshot string) error {
	to := p.snapshot(name, snapshot)
	if err := errors.Join(p.begin(ctx, name), sal.ValidTree(snapshot)); err != nil {
		return err
	}
	taken, err := isSubvolume(to)
	if err != nil {
		return sal.HostError("find the snapshot", err)
	}
	if !taken {
		err = p.createSnapshot(name, to)
	}
	if err == nil {
		err = p.limits.update(name) // always, because an interrupted call may have skipped it
	}
	return sal.HostError("snapshot the tree "+name, err)
}

// createSnapshot creates the subvolume of a snapshot.
func (p *Pool) createSnapshot(name, to string) error {
	from, err := p.source(name, "")
	if err != nil {
		return err
	}
	if err := sal.MakeDir(filepath.Dir(to)); err != nil {
		return err
	}
	p.step("take the snapshot")
	return snapshotWhole(to, name, from, readOnly) // needs no sync: the kernel commits the snapshot
}

// Restore resets a tree to a snapshot: it swaps the tree atomically with a copy of the snapshot.
func (p *Pool) Restore(ctx context.Context, name, snapshot string) error {
	if err := errors.Join(p.begin(ctx, name), sal.ValidTree(snapshot)); err != nil {
		return err
	}
	tree, work := p.Path(name), p.work(name)
	bound, err := boundOf(tree)
	if errors.Is(err, fs.ErrNotExist) {
		return sal.UnknownTree(name)
	}
	if err != nil {
		return sal.HostError("inspect the tree "+name, err)
	}
	from, err := p.source(name, snapshot)
	if err != nil {
		return err
	}
	if err := checkNoNested(name, tree); err != nil {
		return sal.HostError("inspect the tree "+name, err)
	}
	p.step("copy the snapshot")
	err = snapshotSubvolume(work, from, writable)
	if err == nil {
		err = p.limits.setCopied(work, bound) // the limit of the snapshot may be smaller
	}
	if err == nil {
		err = p.limits.set(name, work, bound)
	}
	if err == nil {
		p.step("swap the trees")
		err = exchange(tree, work)
	}
	if err == nil {
		err = p.commit(filepath.Dir(tree), filepath.Dir(work))
	}
	if err == nil {
		err = p.clear(name)
	}
	return sal.HostError("restore the tree "+name, err)
}

// View returns a read-only subvolume. For the current content, the subvolume is a temporary snapshot. Until the caller
// has called `done`, it must not make other calls on the tree.
func (p *Pool) View(ctx context.Context, name, snapshot string) (dir string, done func() error, err error) {
	if err := p.begin(ctx, name); err != nil {
		return "", nil, err
	}
	dir, err = p.source(name, snapshot)
	if err != nil || snapshot != "" {
		return dir, func() error { return nil }, err
	}
	p.step("take a passing snapshot")
	if err := snapshotWhole(p.work(name), name, dir, readOnly); err != nil {
		return "", nil, sal.HostError("snapshot the tree "+name, err)
	}
	return p.work(name), func() error { return sal.HostError("remove a view of the tree "+name, p.clear(name)) }, nil
}

// RemoveSnapshot removes a snapshot of a tree. It succeeds if the snapshot does not exist.
//
//failpoint:none it removes an empty directory
func (p *Pool) RemoveSnapshot(ctx context.Context, name, snapshot string) error {
	if err := errors.Join(p.begin(ctx, name), sal.ValidTree(snapshot)); err != nil {
		return err
	}
	err := p.destroy("remove the snapshot", p.snapshot(name, snapshot))
	if err == nil {
		err = p.limits.update(name)
	}
	if err == nil {
		err = p.commit(p.snapshots(name))
	}
	if err == nil {
		_ = os.Remove(p.snapshots(name)) // only succeeds if it is empty
	}
	return sal.HostError("remove a snapshot of the tree "+name, err)
}
