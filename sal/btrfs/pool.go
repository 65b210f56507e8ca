// Package btrfs stores trees on a btrfs file system. Each tree is a subvolume with a size limit that the kernel
// enforces. Snapshots and clones need no time and no space, and removal is one call. The package makes no assumptions
// about the content of a tree.
//
// Files in a tree are written in place (+C), which disks of machines and database files need. btrfs keeps no checksums
// of such files. After a tree is removed, the kernel frees its space in the background; no call waits for that.
package btrfs

import (
	"context"
	"errors"
	"path/filepath"
	"sync"

	"writ"
	"writ/sal"
)

// Config holds the settings of a pool.
type Config struct {
	// Dir is required: an absolute path on a btrfs file system. The pool enables quotas for the whole file system:
	// simple ones if the kernel supports them.
	Dir string
	// ProjectBytes returns the maximum size of all trees of a project together; 0 means unlimited. It may be nil. A call
	// that creates or grows a tree fails if the limits of the project's trees would together exceed this maximum. For
	// snapshots, the kernel enforces it.
	ProjectBytes func(writ.ProjectID) int64
	// Besides returns the bytes of a project outside the pool, which also count towards its share. It may be nil.
	Besides func(writ.ProjectID) (int64, error)
	// Deny is a group whose members can traverse Dir but must not read the trees of other users; 0 means no group. See
	// confine.Accounts.SharedGroup.
	Deny uint32
	// Step is called before every single change of the file system; tests can stop the driver there. It may be nil.
	Step func(name string)
}

// Pool stores trees on btrfs. Different trees may be used concurrently. Every call that changes a tree first removes
// the unfinished work of an earlier call on that tree.
type Pool struct {
	layout
	subvolumes
	*shares
	limits limits
	quotas quotas

	mu    sync.Mutex // guards ready
	ready bool       // the directories exist
}

var _ sal.Trees = (*Pool)(nil)

// New returns a pool. The first change creates its directories.
func New(c Config) *Pool {
	if c.Step == nil {
		c.Step = func(string) {}
	}
	at, changes := layout{c.Dir}, subvolumes{c.Step, c.Deny}
	p := &Pool{layout: at, subvolumes: changes, quotas: quotas{dir: c.Dir, step: c.Step}}
	p.shares = &shares{trees: at, most: c.ProjectBytes, outside: c.Besides}
	p.limits = limits{at, changes, p.shares}
	return p
}

// About returns the kind and the advantages of btrfs.
func (p *Pool) About() (kind, detail string) {
	return "btrfs", "subvolumes: sizes are enforced, snapshots and clones take no time"
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
	defer p.invalidate()
	tree := p.Path(name)
	there, err := isSubvolume(tree)
	if err == nil && !there {
		p.step("make the tree")
		err = createSubvolume(tree)
	}
	if err == nil {
		sal.InPlace(tree)
		err = p.limits.set(name, tree, bound)
	}
	if err == nil {
		err = p.commit(tree, filepath.Dir(tree))
	}
	return tree, sal.HostError("make the tree "+name, err)
}

// Copy creates a tree that shares the blocks of another tree. Quotas do not limit the shared blocks, so the caller must
// check that the content is not larger than the bound.
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
	defer p.invalidate()
	tree := p.Path(name)
	p.step("clone the tree")
	err = snapshotWhole(tree, from, source, writable)
	if err == nil {
		err = p.limits.setCopied(tree, bound)
	}
	if err == nil {
		err = p.limits.set(name, tree, bound)
	}
	if err == nil {
		err = p.commit(tree, filepath.Dir(tree))
	}
	return tree, sal.HostError("clone the tree "+from, err)
}

// Keep ensures that a tree exists and has its limit, removes the work of interrupted calls, and reports nested
// subvolumes.
func (p *Pool) Keep(ctx context.Context, name string, bound sal.Bound) ([]sal.Drift, error) {
	lost, err := p.prepare()
	if err != nil {
		return nil, err
	}
	if err := p.begin(ctx, name); err != nil {
		return nil, err
	}
	tree := p.Path(name)
	there, err := isSubvolume(tree)
	switch {
	case writ.CodeOf(err) == writ.CodeResourceConflict:
		return []sal.Drift{{What: "its content is gone: " + writ.AsError(err).Message}}, nil
	case err != nil:
		return nil, sal.HostError("inspect the tree "+name, err)
	case !there:
		return []sal.Drift{{What: "its content is gone: missing subvolume " + tree}}, nil
	}
	found, err := nestedDrift(tree)
	if err != nil {
		return nil, sal.HostError("inspect the tree "+name, err)
	}
	if lost {
		found = append(found, sal.Drift{What: "quotas were off at " + p.dir + " and were enabled again", Mended: true})
	}
	if err := p.quotas.rescan(); err != nil {
		return nil, err
	}
	intact, err := p.limits.keep(name, bound)
	if err != nil || intact {
		return found, err
	}
	if _, err := p.make(name, bound); err != nil {
		return found, err
	}
	return append([]sal.Drift{{What: "its quota was wrong", Mended: true}}, found...), nil
}

// Remove removes a tree with its snapshots.
func (p *Pool) Remove(ctx context.Context, name string) error {
	if err := p.begin(ctx, name); err != nil {
		return err
	}
	defer p.invalidate()
	err := p.destroy("remove the tree", p.Path(name))
	if err == nil {
		err = p.destroySnapshots(p.layout, name)
	}
	if err == nil {
		err = p.commit(filepath.Dir(p.Path(name)), filepath.Dir(p.snapshots(name)))
	}
	return sal.HostError("remove the tree "+name, err)
}

// Clone copies a file and shares its blocks.
func (p *Pool) Clone(ctx context.Context, from, to string, size int64) error {
	return sal.Clone(ctx, from, to, size, p.step)
}

// begin prepares the pool and removes the work of an interrupted call on the tree.
func (p *Pool) begin(ctx context.Context, name string) error {
	if err := errors.Join(ctx.Err(), sal.ValidTree(name)); err != nil {
		return err
	}
	if _, err := p.prepare(); err != nil {
		return err
	}
	return sal.HostError("clean up after "+name, p.clear(name))
}

// prepare creates the pool at the first call, and enables quotas. It reports whether another program had disabled
// quotas.
func (p *Pool) prepare() (lost bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.ready {
		if err = p.create(); err == nil {
			err = p.denyAll(p.layout)
		}
		p.ready = err == nil
	}
	if err == nil {
		lost, err = p.quotas.ensure()
	}
	return lost, sal.HostError("create the pool "+p.dir, err)
}

// clear removes the work of an interrupted call.
func (p *Pool) clear(name string) error { return p.destroy("clear work", p.work(name)) }
