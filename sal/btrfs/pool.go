// Package btrfs keeps directories on a btrfs file system: each is a subvolume with a bound that the kernel enforces, snapshots and clones
// take no time and no room, and deleting is one call. The package knows how btrfs is spoken to and must not know what is in a tree.
//
// Everything in a tree is written in place (+C), as disks of machines and files of databases need it; they have checksums of their own
// or do without. Space comes back some time after a tree is removed, when the kernel has cleaned up; nothing here waits for that.
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

// Pool keeps trees on btrfs. Different trees may be used at the same time.
//
// Below Dir, trees/NAME is a tree, snapshots/NAME/SNAPSHOT a snapshot of it, both subvolumes; work/NAME is one that is not finished or
// not needed any more. Every call that changes a tree first removes the latter.
type Pool struct {
	// Dir is required: an absolute path on a btrfs file system. Quotas are switched on for the whole of that: simple ones if the kernel
	// has them.
	Dir string
	// ProjectBytes is how much all trees that count for a project may hold together; 0 is unbounded. It may be nil. What would let their
	// bounds add up to more is refused, and the kernel sees to it that snapshots do not take more either.
	ProjectBytes func(writ.ProjectID) int64
	// Besides returns the bytes of a project outside the pool, which count for its share. It may be nil.
	Besides func(writ.ProjectID) (int64, error)
	// Deny is a group whose members can pass Dir but must not read the trees of others; 0 means no group. See
	// confine.Accounts.SharedGroup.
	Deny uint32
	// Step is called before every single change of the file system; tests stop the driver there. It may be nil.
	Step func(name string)

	mu     sync.Mutex             // guards what follows
	ready  bool                   // Dir and its directories are there
	quotas quotaState             // of Dir's file system
	coming map[string]sal.Bound   // of trees that are just being made or grow
	counts map[writ.ProjectID]int // of trees with a bound, coming ones too; nil if they are to be added up
	sums   int                    // how often they were, for tests
}

var _ sal.Trees = (*Pool)(nil)

// About says what is special about btrfs.
func (p *Pool) About() (kind, detail string) {
	return "btrfs", "subvolumes: sizes are enforced, snapshots and clones take no time"
}

// Path is where a tree is.
func (p *Pool) Path(name string) string { return filepath.Join(p.Dir, "trees", name) }

// Remedy removes the subvolumes of a tree and of its snapshots, as far as there are any, and the directory of these.
func (p *Pool) Remedy(name string) string {
	tree, snapshots, work := sal.Command(p.Path(name)), sal.Command(filepath.Join(p.Dir, "snapshots", name)), sal.Command(filepath.Join(p.Dir, "work", name))
	return fmt.Sprintf("for s in %s %s/* %s; do btrfs subvolume show \"$s\" >/dev/null 2>&1 && btrfs subvolume delete \"$s\"; done; rm -rf %s", tree, snapshots, work, snapshots)
}

// Make makes a tree or lets it grow.
func (p *Pool) Make(ctx context.Context, name string, bound sal.Bound) (dir string, err error) {
	if err := p.begin(ctx, name); err != nil {
		return "", err
	}
	release, err := p.promise(name, bound)
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

// Snapshot keeps what a tree holds now.
func (p *Pool) Snapshot(ctx context.Context, name, snapshot string) error {
	to := p.snapshot(name, snapshot)
	if err := errors.Join(p.begin(ctx, name), sal.ValidTree(snapshot)); err != nil {
		return err
	}
	taken, err := isSubvolume(to)
	if err != nil {
		return sal.HostError("look for the snapshot", err)
	}
	if !taken {
		err = p.take(name, to)
	}
	if err == nil {
		err = p.rebound(name) // also when it was taken already: an interrupted call may not have come to this
	}
	return sal.HostError("keep a snapshot of the tree "+name, err)
}

// take makes a snapshot of a tree.
func (p *Pool) take(name, to string) error {
	if there, err := isSubvolume(p.Path(name)); err != nil || !there {
		return cmp.Or(sal.HostError("look for the tree", err), sal.UnknownTree(name))
	}
	if err := sal.MakeDir(filepath.Dir(to)); err != nil {
		return err
	}
	p.step("take the snapshot")
	return p.keep(to, name, p.Path(name), readOnly) // the kernel commits it
}

// Restore puts a tree back to a snapshot: a copy of the snapshot and the tree change places at once.
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
		return sal.HostError("look at the tree "+name, err)
	}
	from, err := p.source(name, snapshot)
	if err != nil {
		return err
	}
	if err := p.alone(name, tree); err != nil {
		return sal.HostError("look at the tree "+name, err)
	}
	p.step("copy the snapshot")
	err = snapshotSubvolume(work, from, writable)
	if err == nil {
		err = setBound(work, bound) // the snapshot may be of a time when it was smaller
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
	return sal.HostError("put the tree "+name+" back", err)
}

// Copy makes a tree that shares the blocks of another one. Quotas do not stop that: the caller knows that it is big enough.
func (p *Pool) Copy(ctx context.Context, name string, bound sal.Bound, from, snapshot string) (dir string, err error) {
	if err := p.begin(ctx, name); err != nil {
		return "", err
	}
	source, err := p.source(from, snapshot)
	if err != nil {
		return "", err
	}
	release, err := p.promise(name, bound)
	if err != nil {
		return "", err
	}
	defer release()
	defer p.recount()
	tree := p.Path(name)
	p.step("clone the tree")
	err = p.keep(tree, from, source, writable)
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

// View returns a read-only subvolume. One of what the tree holds now is a passing snapshot; nothing else may be done with the tree until
// the caller is done.
func (p *Pool) View(ctx context.Context, name, snapshot string) (dir string, done func() error, err error) {
	if err := p.begin(ctx, name); err != nil {
		return "", nil, err
	}
	dir, err = p.source(name, snapshot)
	if err != nil || snapshot != "" {
		return dir, func() error { return nil }, err
	}
	p.step("take a passing snapshot")
	if err := p.keep(p.work(name), name, dir, readOnly); err != nil {
		return "", nil, sal.HostError("keep what the tree "+name+" holds", err)
	}
	return p.work(name), func() error { return sal.HostError("forget a view of the tree "+name, p.clear(name)) }, nil
}

// Keep sees to it that a tree is there and has its bound, takes away what an interrupted call has left, and looks for subvolumes in the tree.
func (p *Pool) Keep(ctx context.Context, name string, bound sal.Bound) ([]sal.Drift, error) {
	lost, err := p.prepare()
	if err != nil {
		return nil, sal.HostError("make the pool "+p.Dir, err)
	}
	if err := p.begin(ctx, name); err != nil {
		return nil, err
	}
	tree := p.Path(name)
	if there, err := isSubvolume(tree); err != nil || !there {
		return []sal.Drift{{What: "its content is gone: there is no subvolume " + tree}}, nil
	}
	found, err := p.strangers(tree)
	if err != nil {
		return nil, sal.HostError("look into the tree "+name, err)
	}
	if lost {
		found = append(found, sal.Drift{What: "quotas were off at " + p.Dir + " and were switched on again", Mended: true})
	}
	if err := p.rescanQuotas(); err != nil {
		return nil, err
	}
	bounded, err := p.keepBound(name, bound)
	return append(bounded, found...), err
}

// keepBound sees to it that a tree has its bound.
func (p *Pool) keepBound(name string, bound sal.Bound) ([]sal.Drift, error) {
	tree := p.Path(name)
	had, err := boundOf(tree)
	if err != nil && !errors.Is(err, errNoSize) {
		return nil, sal.HostError("look at the tree "+name, err)
	}
	if err == nil {
		bound.Bytes = grown(had.Bytes, bound.Bytes)
	}
	want, err := p.limitOf(name, bound.Bytes)
	if err != nil {
		return nil, sal.HostError("look at the quota of "+name, err)
	}
	id, err := subvolumeID(tree)
	if err != nil {
		return nil, sal.HostError("look at the tree "+name, err)
	}
	if is, err := groupLimit(p.Dir, group(0, id)); err == nil && is == want && had.Bytes == bound.Bytes {
		return nil, sal.HostError("look at the quota of a project", p.keepShare(had.Project))
	}
	if _, err := p.make(name, bound); err != nil {
		return nil, err
	}
	return []sal.Drift{{What: "its quota was not what it should be", Mended: true}}, nil
}

// source is the subvolume of a tree or of a snapshot of it.
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
		return "", cmp.Or(sal.HostError("look for the tree", err), missing)
	}
	return path, nil
}

// Snapshots are the names of a tree's snapshots.
func (p *Pool) Snapshots(ctx context.Context, name string) ([]string, error) {
	if err := errors.Join(ctx.Err(), sal.ValidTree(name)); err != nil {
		return nil, err
	}
	return sal.FileNames(filepath.Join(p.Dir, "snapshots", name))
}

// RemoveSnapshot removes a snapshot.
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
		_ = os.Remove(filepath.Join(p.Dir, "snapshots", name)) // if it was the last one
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

// Clone copies a file, sharing its blocks.
func (p *Pool) Clone(ctx context.Context, from, to string, size int64) error {
	return sal.Clone(ctx, from, to, size, p.Step)
}

// begin makes sure that the pool is there and that nothing is left of a call that was interrupted.
func (p *Pool) begin(ctx context.Context, name string) error {
	if err := errors.Join(ctx.Err(), sal.ValidTree(name)); err != nil {
		return err
	}
	if _, err := p.prepare(); err != nil {
		return sal.HostError("make the pool "+p.Dir, err)
	}
	return sal.HostError("clear up after "+name, p.clear(name))
}

// prepare makes the pool and switches quotas on. It reports whether another program had switched them off.
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

// commit makes sure that what was made, renamed or removed in directories stays so after a power cut. One that is not there is no error.
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

// destroy removes a subvolume with what is nested in it, and is content if it is not there.
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
