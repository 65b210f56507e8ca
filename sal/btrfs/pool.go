// Package btrfs keeps directories on a btrfs file system: each is a subvolume with a bound that the kernel enforces, snapshots and clones
// take no time and no room, and deleting is one call. Pool has them for any driver, Driver is the volume driver on top of it. The package
// knows how btrfs is spoken to and must not know what is in a tree.
//
// Everything in a tree is written in place (+C), as disks of machines and files of databases need it; they have checksums of their own
// or do without. Space comes back some time after a tree is removed, when the kernel has cleaned up; nothing here waits for that.
package btrfs

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"

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
	// ProjectBytes is how much all volumes of a project may occupy together; 0 is unbounded. It is about what Driver makes, not about
	// trees of other drivers. It may be nil.
	ProjectBytes func(writ.ProjectID) int64
	// Step is called before every single change of the file system; tests stop the driver there. It may be nil.
	Step func(name string)

	mu    sync.Mutex // guards ready while the pool is made
	ready bool       // Dir and its directories are there, and quotas are on
}

var _ sal.Trees = (*Pool)(nil)

// Make makes a tree or lets it grow.
func (p *Pool) Make(ctx context.Context, name string, size int64) (string, error) {
	return p.make(ctx, name, size, "")
}

// make makes a tree that counts for a project, unless that is empty.
func (p *Pool) make(ctx context.Context, name string, size int64, project writ.ProjectID) (dir string, err error) {
	tree := p.tree(name)
	if err := p.begin(ctx, name); err != nil {
		return "", err
	}
	there, err := isSubvolume(tree)
	if err == nil && !there {
		p.step("make the tree")
		err = createSubvolume(tree)
	}
	if err == nil {
		sal.InPlace(tree)
		err = p.bound(name, tree, size, project)
	}
	if err == nil {
		err = p.commit(tree, filepath.Dir(tree))
	}
	return tree, hostError("make the tree "+name, err)
}

// Snapshot keeps what a tree holds now.
func (p *Pool) Snapshot(ctx context.Context, name, snapshot string) error {
	to := p.snapshot(name, snapshot)
	if err := errors.Join(p.begin(ctx, name), valid(snapshot)); err != nil {
		return err
	}
	if there, err := isSubvolume(to); err != nil || there {
		return hostError("look for the snapshot", err)
	}
	if there, err := isSubvolume(p.tree(name)); err != nil || !there {
		return cmpError(hostError("look for the tree", err), unknownTree(name))
	}
	err := sal.MakeDir(filepath.Dir(to))
	if err == nil {
		p.step("take the snapshot")
		err = snapshotSubvolume(to, p.tree(name), readOnly) // the kernel commits it
	}
	if err == nil {
		err = p.rebound(name)
	}
	return hostError("keep a snapshot of the tree "+name, err)
}

// Restore puts a tree back to a snapshot: a copy of the snapshot and the tree change places at once.
func (p *Pool) Restore(ctx context.Context, name, snapshot string) error {
	return p.restore(ctx, name, snapshot, "")
}

func (p *Pool) restore(ctx context.Context, name, snapshot string, project writ.ProjectID) error {
	if err := errors.Join(p.begin(ctx, name), valid(snapshot)); err != nil {
		return err
	}
	tree, work := p.tree(name), p.work(name)
	size, err := sizeOf(tree)
	if errors.Is(err, fs.ErrNotExist) {
		return unknownTree(name)
	}
	if err != nil {
		return hostError("look at the tree "+name, err)
	}
	from, err := p.source(name, snapshot)
	if err != nil {
		return err
	}
	p.step("copy the snapshot")
	err = snapshotSubvolume(work, from, writable)
	if err == nil {
		err = setSize(work, size) // the snapshot may be of a time when it was smaller
	}
	if err == nil {
		err = p.bound(name, work, size, project)
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
	return hostError("put the tree "+name+" back", err)
}

// clone makes a tree with the content of another one, or of a snapshot of that.
func (p *Pool) clone(ctx context.Context, name, from, snapshot string, size int64, project writ.ProjectID) (dir string, err error) {
	if err := p.begin(ctx, name); err != nil {
		return "", err
	}
	source, err := p.source(from, snapshot)
	if err != nil {
		return "", err
	}
	tree := p.tree(name)
	p.step("clone the tree")
	err = snapshotSubvolume(tree, source, writable)
	if err == nil {
		err = setSize(tree, size)
	}
	if err == nil {
		err = p.bound(name, tree, size, project)
	}
	if err == nil {
		err = p.commit(tree, filepath.Dir(tree))
	}
	return tree, hostError("clone the tree "+from, err)
}

// source is the subvolume of a tree or of a snapshot of it.
func (p *Pool) source(name, snapshot string) (path string, err error) {
	if err := valid(name); err != nil {
		return "", err
	}
	path, missing := p.tree(name), unknownTree(name)
	if snapshot != "" {
		path = p.snapshot(name, snapshot)
		missing = writ.Errorf(writ.CodeResourceUnknown, "the tree %s has no snapshot %q", name, snapshot)
	}
	there, err := isSubvolume(path)
	if err != nil || !there {
		return "", cmpError(hostError("look for the tree", err), missing)
	}
	return path, nil
}

// Snapshots are the names of a tree's snapshots.
func (p *Pool) Snapshots(ctx context.Context, name string) ([]string, error) {
	if err := errors.Join(ctx.Err(), valid(name)); err != nil {
		return nil, err
	}
	return names(filepath.Join(p.Dir, "snapshots", name))
}

// RemoveSnapshot removes a snapshot.
func (p *Pool) RemoveSnapshot(ctx context.Context, name, snapshot string) error {
	if err := errors.Join(p.begin(ctx, name), valid(snapshot)); err != nil {
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
	return hostError("remove a snapshot of the tree "+name, err)
}

// Remove removes a tree with its snapshots.
func (p *Pool) Remove(ctx context.Context, name string) error {
	if err := p.begin(ctx, name); err != nil {
		return err
	}
	err := p.destroy("remove the tree", p.tree(name))
	if err == nil {
		err = p.removeSnapshots(name)
	}
	if err == nil {
		err = p.commit(filepath.Join(p.Dir, "trees"), filepath.Join(p.Dir, "snapshots"))
	}
	return hostError("remove the tree "+name, err)
}

func (p *Pool) removeSnapshots(name string) error {
	all, err := names(filepath.Join(p.Dir, "snapshots", name))
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
		some, err := names(filepath.Join(p.Dir, dir))
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
	if err := errors.Join(ctx.Err(), valid(name)); err != nil {
		return err
	}
	if err := p.prepare(); err != nil {
		return hostError("make the pool "+p.Dir, err)
	}
	return hostError("clear up after "+name, p.clear(name))
}

func (p *Pool) prepare() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ready {
		return nil
	}
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
	err := enableQuota(p.Dir)
	p.ready = err == nil
	return err
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

// destroy removes a subvolume, and is content if it is not there.
func (p *Pool) destroy(step, path string) error {
	there, err := isSubvolume(path)
	if err != nil || !there {
		return err
	}
	p.step(step)
	return deleteSubvolume(path)
}

func (p *Pool) tree(name string) string { return filepath.Join(p.Dir, "trees", name) }
func (p *Pool) work(name string) string { return filepath.Join(p.Dir, "work", name) }
func (p *Pool) snapshot(name, snapshot string) string {
	return filepath.Join(p.Dir, "snapshots", name, snapshot)
}

func (p *Pool) step(name string) {
	if p.Step != nil {
		p.Step(name)
	}
}

// names are the names in a directory, sorted; none if it is not there.
func names(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, hostError("list "+dir, err)
	}
	var all []string
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return all, nil
}

// valid refuses names that would lead elsewhere.
func valid(name string) error {
	if name == "." || !filepath.IsLocal(name) || filepath.Base(name) != name {
		return writ.Errorf(writ.CodeArgumentsInvalid, "%q is no name for a tree or snapshot", name)
	}
	return nil
}

func unknownTree(name string) error {
	return writ.Errorf(writ.CodeResourceUnknown, "this node has no tree %s", name)
}

// cmpError returns the first error there is.
func cmpError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// hostError is sal.HostError for a file system with quotas. It returns nil for nil.
func hostError(doing string, err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, syscall.EDQUOT) {
		return writ.Errorf(writ.CodeQuotaExceeded, "cannot %s: it would hold more than it may: %w", doing, err).
			WithHint("let it grow, remove snapshots of it, or ask for more room for the project on this node")
	}
	return sal.HostError(doing, err)
}
