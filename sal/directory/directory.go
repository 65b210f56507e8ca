// Package directory stores trees as plain directories, on any disk. It implements sal.Trees with two limitations, which
// About reports: sizes are not enforced, and snapshots, copies and restores copy every byte, unless the disk can share
// blocks. Copies preserve hard and symbolic links, pipes, modes, times, extended attributes and, if the node runs as
// root, owners. The package makes no assumptions about the content of a tree.
package directory

import (
	"context"
	"errors"
	"path"
	"path/filepath"

	"writ/sal"
)

// Trees stores trees in a directory.
//
// Below Dir, trees/NAME/data is a tree and trees/NAME/snapshots/* are its snapshots. trees/NAME/work is incomplete or
// no longer needed: a tree is created there and renamed when it is complete and synced, and a removed snapshot is
// deleted there. trees/NAME/restored is a restored tree that is about to replace data. Every call on a tree, except
// Room and Snapshots, first completes an interrupted restore and removes the unfinished work of an interrupted call.
type Trees struct {
	Dir string // required: an absolute path
	// Step is called before every single change of Dir; tests can stop the driver there. It may be nil.
	Step func(name string)
}

var _ sal.Trees = (*Trees)(nil)

// About returns the kind and the limitations of plain directories.
func (t *Trees) About() (kind, detail string) {
	return "directory", "plain directories: sizes are not enforced; snapshots and clones are full copies, unless the disk shares blocks"
}

// Path returns the path of a tree.
func (t *Trees) Path(name string) string { return filepath.Join(t.Dir, "trees", name, "data") }

// Remedy returns a command that removes a tree, its snapshots and unfinished copies.
func (t *Trees) Remedy(name string) string {
	return sal.Command("rm", "-r", filepath.Join(t.Dir, "trees", name))
}

// Room checks only the name of the tree: directories have no limits.
func (t *Trees) Room(ctx context.Context, name string, _ sal.Bound) error {
	return errors.Join(ctx.Err(), sal.ValidTree(name))
}

// Make creates a tree. It ignores the bound.
func (t *Trees) Make(ctx context.Context, name string, _ sal.Bound) (string, error) {
	err := onTree(ctx, t, name, func(j *job) error {
		exists, err := j.exists(path.Join(j.at, "data"))
		if err != nil || exists {
			return err
		}
		return j.build(ctx, path.Join(j.at, "data"),
			func(_ context.Context, to string) error { return j.root.Mkdir(to, 0o755) })
	})
	if err != nil {
		return "", sal.HostError("make the tree "+name, err)
	}
	return t.Path(name), nil
}

// Copy copies a tree or a snapshot.
func (t *Trees) Copy(ctx context.Context, name string, _ sal.Bound, from, snapshot string) (string, error) {
	err := onTree(ctx, t, name, func(j *job) error {
		source, err := j.source(from, snapshot)
		if err != nil {
			return err
		}
		return j.build(ctx, path.Join(j.at, "data"), j.copyOf(source))
	})
	if err != nil {
		return "", sal.HostError("clone the tree "+from, err)
	}
	return t.Path(name), nil
}

// View returns the directory of a snapshot. If snapshot is empty, it returns the directory of the tree itself, which
// may change.
func (t *Trees) View(ctx context.Context, name, snapshot string) (dir string, done func() error, err error) {
	err = onTree(ctx, t, name, func(j *job) error {
		dir, err = j.source(name, snapshot)
		return err
	})
	if err != nil {
		return "", nil, sal.HostError("inspect the tree "+name, err)
	}
	return filepath.Join(t.Dir, dir), func() error { return nil }, nil
}

// Keep returns a drift if the content of a tree is missing. It cannot repair this.
func (t *Trees) Keep(ctx context.Context, name string, _ sal.Bound) (drift []sal.Drift, err error) {
	err = onTree(ctx, t, name, func(j *job) error {
		if exists, err := j.exists(path.Join(j.at, "data")); err != nil || exists {
			return err
		}
		drift = []sal.Drift{{What: "its content is gone: missing directory " + t.Path(name)}}
		return nil
	})
	return drift, sal.HostError("inspect the tree "+name, err)
}

// Snapshot takes a snapshot of a tree.
func (t *Trees) Snapshot(ctx context.Context, name, snapshot string) error {
	return sal.HostError("snapshot the tree "+name, onTree(ctx, t, name, func(j *job) error {
		if err := sal.ValidTree(snapshot); err != nil {
			return err
		}
		to := path.Join(j.at, "snapshots", snapshot)
		if exists, err := j.exists(to); err != nil || exists {
			return err
		}
		data, err := j.source(name, "")
		if err != nil {
			return err
		}
		return j.build(ctx, to, j.copyOf(data))
	}))
}

// Restore copies the snapshot and replaces the tree when the copy is complete.
func (t *Trees) Restore(ctx context.Context, name, snapshot string) error {
	return sal.HostError("restore the tree "+name, onTree(ctx, t, name, func(j *job) error {
		if err := sal.ValidTree(snapshot); err != nil {
			return err
		}
		from, err := j.source(name, snapshot)
		if err != nil {
			return err
		}
		if err := j.build(ctx, path.Join(j.at, "restored"), j.copyOf(from)); err != nil {
			return err
		}
		return j.restored()
	}))
}

// Snapshots returns the names of a tree's snapshots.
func (t *Trees) Snapshots(ctx context.Context, name string) ([]string, error) {
	if err := errors.Join(ctx.Err(), sal.ValidTree(name)); err != nil {
		return nil, err
	}
	return sal.FileNames(filepath.Join(t.Dir, "trees", name, "snapshots"))
}

// RemoveSnapshot removes a snapshot. It renames the snapshot first, so that a partly removed one is never visible.
func (t *Trees) RemoveSnapshot(ctx context.Context, name, snapshot string) error {
	return sal.HostError("remove a snapshot of the tree "+name, onTree(ctx, t, name, func(j *job) error {
		if err := sal.ValidTree(snapshot); err != nil {
			return err
		}
		from := path.Join(j.at, "snapshots", snapshot)
		if exists, err := j.exists(from); err != nil || !exists {
			return err
		}
		return j.discard(from)
	}))
}

// Remove removes a tree with its snapshots.
func (t *Trees) Remove(ctx context.Context, name string) error {
	return sal.HostError("remove the tree "+name, onTree(ctx, t, name, func(j *job) error {
		if exists, err := j.exists(j.at); err != nil || !exists {
			return err
		}
		j.step("remove the tree")
		if err := j.root.RemoveAll(j.at); err != nil {
			return err
		}
		return j.sync("trees")
	}))
}

// List returns the names of all trees.
func (t *Trees) List(ctx context.Context) ([]string, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return sal.FileNames(filepath.Join(t.Dir, "trees"))
}

// Clone copies a file and shares its blocks where the disk supports that.
func (t *Trees) Clone(ctx context.Context, from, to string, size int64) error {
	return sal.Clone(ctx, from, to, size, t.Step)
}
