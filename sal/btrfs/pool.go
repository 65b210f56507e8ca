// Package btrfs stores trees on a btrfs file system. Each tree is a subvolume with a size limit that the kernel
// enforces. Snapshots and clones need no time and no space, and removal is one call. The package does not know the
// content of a tree.
//
// Files in a tree are written in place (+C), which disks of machines and database files need. Such files have no
// checksums of btrfs. After a tree is removed, the kernel frees its space in the background; no call waits for that.
package btrfs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"writ"
	"writ/sal"
)

// Pool stores trees on btrfs. Different trees may be used concurrently.
//
// Below Dir, trees/NAME is a tree and snapshots/NAME/SNAPSHOT is a snapshot of it; both are subvolumes. work/NAME is
// unfinished or no longer needed. Every call that changes a tree first removes its work/NAME.
type Pool struct {
	// Dir is required: an absolute path on a btrfs file system. The pool enables quotas for the whole file system:
	// simple ones if the kernel supports them.
	Dir string
	// ProjectBytes returns the maximum size of all trees of a project together; 0 means unlimited. It may be nil. Calls
	// that would exceed it by the sum of the limits fail, and the kernel enforces it for snapshots.
	ProjectBytes func(writ.ProjectID) int64
	// Besides returns the bytes of a project outside the pool. They count for its share. It may be nil.
	Besides func(writ.ProjectID) (int64, error)
	// Deny is a group whose members can pass Dir but must not read the trees of others; 0 means no group. See
	// confine.Accounts.SharedGroup.
	Deny uint32
	// Step is called before every single change of the file system; tests stop the driver there. It may be nil.
	Step func(name string)

	mu      sync.Mutex             // guards the fields below
	ready   bool                   // Dir and its directories exist
	quotas  quotaState             // of Dir's file system
	pending map[string]sal.Bound   // trees that are being created or grown
	counts  map[writ.ProjectID]int // trees with a limit per project, including coming; nil means unknown
	sums    int                    // number of recounts, for tests
}

var _ sal.Trees = (*Pool)(nil)

// About returns the kind and the advantages of btrfs.
func (p *Pool) About() (kind, detail string) {
	return "btrfs", "subvolumes: sizes are enforced, snapshots and clones take no time"
}

// Path returns the path of a tree.
func (p *Pool) Path(name string) string { return filepath.Join(p.Dir, "trees", name) }

// Remedy returns a command that removes the subvolumes of a tree and of its snapshots, if they exist, and the directory
// of the snapshots.
func (p *Pool) Remedy(name string) string {
	tree := sal.Command(p.Path(name))
	snapshots := sal.Command(filepath.Join(p.Dir, "snapshots", name))
	work := sal.Command(filepath.Join(p.Dir, "work", name))
	return fmt.Sprintf("for s in %s %s/* %s; do btrfs subvolume show \"$s\" >/dev/null 2>&1 && btrfs subvolume delete \"$s\"; done; rm -rf %s", tree, snapshots, work, snapshots)
}

// Make creates a tree or grows it.
func (p *Pool) Make(ctx context.Context, name string, bound sal.Bound) (dir string, err error) {
	if err := p.begin(ctx, name); err != nil {
		return "", err
	}
	release, err := p.reserve(name, bound)
	if err != nil {
		return "", err
	}
	defer release()
	return p.make(name, bound)
}

func (p *Pool) make(name string, bound sal.Bound) (dir string, err error) {
	defer p.recount()
	tree := p.Path(name)
	there, err := isSubvolume(tree)
	if err == nil && !there {
		p.step("make the tree")
		err = createSubvolume(tree)
	}
	if err == nil {
		sal.InPlace(tree)
		err = p.bound(name, tree, bound)
	}
	if err == nil {
		err = p.commit(tree, filepath.Dir(tree))
	}
	return tree, sal.HostError("make the tree "+name, err)
}

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
		err = p.rebound(name) // always, because an interrupted call may have skipped it
	}
	return sal.HostError("snapshot the tree "+name, err)
}

// createSnapshot creates the subvolume of a snapshot.
func (p *Pool) createSnapshot(name, to string) error {
	if there, err := isSubvolume(p.Path(name)); err != nil || !there {
		return cmp.Or(sal.HostError("find the tree", err), sal.UnknownTree(name))
	}
	if err := sal.MakeDir(filepath.Dir(to)); err != nil {
		return err
	}
	p.step("take the snapshot")
	return p.snapshotWhole(to, name, p.Path(name), readOnly) // the kernel commits it
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
	if err := p.checkNoNested(name, tree); err != nil {
		return sal.HostError("inspect the tree "+name, err)
	}
	p.step("copy the snapshot")
	err = snapshotSubvolume(work, from, writable)
	if err == nil {
		err = setBound(work, bound) // the snapshot may be smaller
	}
	if err == nil {
		err = p.bound(name, work, bound)
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

// Copy creates a tree that shares the blocks of another one. Quotas do not limit the shared blocks: the caller checks
// the size.
func (p *Pool) Copy(ctx context.Context, name string, bound sal.Bound, from, snapshot string) (dir string, err error) {
	if err := p.begin(ctx, name); err != nil {
		return "", err
	}
	source, err := p.source(from, snapshot)
	if err != nil {
		return "", err
	}
	release, err := p.reserve(name, bound)
	if err != nil {
		return "", err
	}
	defer release()
	defer p.recount()
	tree := p.Path(name)
	p.step("clone the tree")
	err = p.snapshotWhole(tree, from, source, writable)
	if err == nil {
		err = setBound(tree, bound)
	}
	if err == nil {
		err = p.bound(name, tree, bound)
	}
	if err == nil {
		err = p.commit(tree, filepath.Dir(tree))
	}
	return tree, sal.HostError("clone the tree "+from, err)
}

// View returns a read-only subvolume. For the current content, it is a temporary snapshot; the tree must not be used
// otherwise until done is called.
func (p *Pool) View(ctx context.Context, name, snapshot string) (dir string, done func() error, err error) {
	if err := p.begin(ctx, name); err != nil {
		return "", nil, err
	}
	dir, err = p.source(name, snapshot)
	if err != nil || snapshot != "" {
		return dir, func() error { return nil }, err
	}
	p.step("take a passing snapshot")
	if err := p.snapshotWhole(p.work(name), name, dir, readOnly); err != nil {
		return "", nil, sal.HostError("snapshot the tree "+name, err)
	}
	return p.work(name), func() error { return sal.HostError("remove a view of the tree "+name, p.clear(name)) }, nil
}

// Keep ensures that a tree exists and has its limit, removes the work of interrupted calls, and reports nested
// subvolumes.
func (p *Pool) Keep(ctx context.Context, name string, bound sal.Bound) ([]sal.Drift, error) {
	lost, err := p.prepare()
	if err != nil {
		return nil, sal.HostError("create the pool "+p.Dir, err)
	}
	if err := p.begin(ctx, name); err != nil {
		return nil, err
	}
	tree := p.Path(name)
	if there, err := isSubvolume(tree); err != nil || !there {
		return []sal.Drift{{What: "its content is gone: missing subvolume " + tree}}, nil
	}
	found, err := p.nestedDrift(tree)
	if err != nil {
		return nil, sal.HostError("inspect the tree "+name, err)
	}
	if lost {
		found = append(found, sal.Drift{What: "quotas were off at " + p.Dir + " and were enabled again", Mended: true})
	}
	if err := p.rescanQuotas(); err != nil {
		return nil, err
	}
	bounded, err := p.keepBound(name, bound)
	return append(bounded, found...), err
}

// keepBound restores the limit of a tree.
func (p *Pool) keepBound(name string, bound sal.Bound) ([]sal.Drift, error) {
	tree := p.Path(name)
	had, err := boundOf(tree)
	if err != nil && !errors.Is(err, errNoSize) {
		return nil, sal.HostError("inspect the tree "+name, err)
	}
	if err == nil {
		bound.Bytes = grown(had.Bytes, bound.Bytes)
	}
	want, err := p.limitOf(name, bound.Bytes)
	if err != nil {
		return nil, sal.HostError("read the quota of "+name, err)
	}
	id, err := subvolumeID(tree)
	if err != nil {
		return nil, sal.HostError("inspect the tree "+name, err)
	}
	if is, err := groupLimit(p.Dir, group(0, id)); err == nil && is == want && had.Bytes == bound.Bytes {
		return nil, sal.HostError("set the quota of a project", p.keepShare(had.Project))
	}
	if _, err := p.make(name, bound); err != nil {
		return nil, err
	}
	return []sal.Drift{{What: "its quota was wrong", Mended: true}}, nil
}

// source returns the subvolume of a tree or of one of its snapshots.
func (p *Pool) source(name, snapshot string) (path string, err error) {
	if err := sal.ValidTree(name); err != nil {
		return "", err
	}
	path, missing := p.Path(name), sal.UnknownTree(name)
	if snapshot != "" {
		path = p.snapshot(name, snapshot)
		missing = writ.Errorf(writ.CodeResourceUnknown, "the tree %s has no snapshot %q", name, snapshot)
	}
	there, err := isSubvolume(path)
	if err != nil || !there {
		return "", cmp.Or(sal.HostError("find the tree", err), missing)
	}
	return path, nil
}

// Snapshots returns the names of a tree's snapshots.
func (p *Pool) Snapshots(ctx context.Context, name string) ([]string, error) {
	if err := errors.Join(ctx.Err(), sal.ValidTree(name)); err != nil {
		return nil, err
	}
	return sal.FileNames(filepath.Join(p.Dir, "snapshots", name))
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
		err = p.rebound(name)
	}
	if err == nil {
		err = p.commit(filepath.Join(p.Dir, "snapshots", name))
	}
	if err == nil {
		_ = os.Remove(filepath.Join(p.Dir, "snapshots", name)) // only succeeds if it is empty
	}
	return sal.HostError("remove a snapshot of the tree "+name, err)
}

// Remove removes a tree with its snapshots.
func (p *Pool) Remove(ctx context.Context, name string) error {
	if err := p.begin(ctx, name); err != nil {
		return err
	}
	defer p.recount()
	err := p.destroy("remove the tree", p.Path(name))
	if err == nil {
		err = p.removeSnapshots(name)
	}
	if err == nil {
		err = p.commit(filepath.Join(p.Dir, "trees"), filepath.Join(p.Dir, "snapshots"))
	}
	return sal.HostError("remove the tree "+name, err)
}

//failpoint:none it removes an empty directory
func (p *Pool) removeSnapshots(name string) error {
	all, err := sal.FileNames(filepath.Join(p.Dir, "snapshots", name))
	if err != nil {
		return err
	}
	for _, s := range all {
		if err := p.destroy("remove the snapshot", p.snapshot(name, s)); err != nil {
			return err
		}
	}
	if err := os.Remove(filepath.Join(p.Dir, "snapshots", name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// List returns the names of all trees.
func (p *Pool) List(ctx context.Context) ([]string, error) {
	var all []string
	for _, dir := range []string{"trees", "snapshots", "work"} {
		some, err := sal.FileNames(filepath.Join(p.Dir, dir))
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
	}
	slices.Sort(all)
	return slices.Compact(all), ctx.Err()
}

// Clone copies a file and shares its blocks.
func (p *Pool) Clone(ctx context.Context, from, to string, size int64) error {
	return sal.Clone(ctx, from, to, size, p.Step)
}

// begin prepares the pool and removes the work of an interrupted call on the tree.
func (p *Pool) begin(ctx context.Context, name string) error {
	if err := errors.Join(ctx.Err(), sal.ValidTree(name)); err != nil {
		return err
	}
	if _, err := p.prepare(); err != nil {
		return sal.HostError("create the pool "+p.Dir, err)
	}
	return sal.HostError("clean up after "+name, p.clear(name))
}

// prepare creates the pool and enables quotas. It reports whether another program had disabled them.
func (p *Pool) prepare() (lost bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.ready {
		if err := p.makeDirs(); err != nil {
			return false, err
		}
		p.ready = true
	}
	return p.quotas.ensure(p.Dir)
}

func (p *Pool) makeDirs() error {
	if err := sal.MakeDir(p.Dir); err != nil {
		return err
	}
	if err := Usable(p.Dir); err != nil {
		return err
	}
	for _, dir := range []string{"trees", "snapshots", "work"} {
		if err := sal.MakeDir(filepath.Join(p.Dir, dir)); err != nil {
			return err
		}
	}
	return p.denyAll()
}

// commit syncs directories, so that created, renamed and removed entries survive a power cut. A missing directory is
// not an error.
func (p *Pool) commit(dirs ...string) error {
	for _, dir := range dirs {
		p.step("commit")
		if err := sal.SyncDir(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

func (p *Pool) clear(name string) error { return p.destroy("clear work", p.work(name)) }

// destroy removes a subvolume with its nested subvolumes. A missing subvolume is not an error.
//
//failpoint:steps clear work; remove the tree; remove the snapshot
func (p *Pool) destroy(step, path string) error {
	there, err := isSubvolume(path)
	if err != nil || !there {
		return err
	}
	p.step(step)
	return p.removeWithNested(path)
}

func (p *Pool) work(name string) string { return filepath.Join(p.Dir, "work", name) }
func (p *Pool) snapshot(name, snapshot string) string {
	return filepath.Join(p.Dir, "snapshots", name, snapshot)
}

func (p *Pool) step(name string) {
	if p.Step != nil {
		p.Step(name)
	}
}
