// Package directory stores trees as plain directories, on any disk. It implements sal.Trees with two limitations, which
// About reports: sizes are not enforced, and snapshots, copies and restores copy every byte, unless the disk can share
// blocks. Copies preserve links of both kinds, pipes, modes, times, extended attributes and, if the node runs as root,
// owners. The package does not know the content of a tree.
package directory

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"

	"writ"
	"writ/sal"
)

// Trees stores trees in a directory.
//
// Below Dir, trees/NAME/data is a tree and trees/NAME/snapshots/* are its snapshots. trees/NAME/work is unfinished: a
// tree is created there and renamed when it is complete and synced. trees/NAME/restored is a restored tree that is
// about to replace data.
type Trees struct {
	Dir string // required: an absolute path
	// Step is called before every single change of Dir; tests stop the driver there. It may be nil.
	Step func(name string)
}

var _ sal.Trees = (*Trees)(nil)

// About returns the kind and the limitations of plain directories.
func (t *Trees) About() (kind, detail string) {
	return "directory", "plain directories: sizes are not enforced, snapshots and clones are full copies"
}

// Path returns the path of a tree.
func (t *Trees) Path(name string) string { return filepath.Join(t.Dir, "trees", name, "data") }

// Remedy returns a command that removes a tree, its snapshots and unfinished copies.
func (t *Trees) Remedy(name string) string {
	return sal.Command("rm", "-r", filepath.Join(t.Dir, "trees", name))
}

// Room always succeeds: directories have no limits.
func (t *Trees) Room(ctx context.Context, name string, _ sal.Bound) error {
	return errors.Join(ctx.Err(), sal.ValidTree(name))
}

// Make creates a tree. It ignores the bound.
func (t *Trees) Make(ctx context.Context, name string, _ sal.Bound) (string, error) {
	err := t.withTree(ctx, name, func(j *job) error {
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
	err := t.withTree(ctx, name, func(j *job) error {
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

// View returns the tree itself, which may change, or a snapshot of it.
func (t *Trees) View(ctx context.Context, name, snapshot string) (dir string, done func() error, err error) {
	err = t.withTree(ctx, name, func(j *job) error {
		dir, err = j.source(name, snapshot)
		return err
	})
	if err != nil {
		return "", nil, sal.HostError("inspect the tree "+name, err)
	}
	return filepath.Join(t.Dir, dir), func() error { return nil }, nil
}

// Keep checks whether a tree exists.
func (t *Trees) Keep(ctx context.Context, name string, _ sal.Bound) (drift []sal.Drift, err error) {
	err = t.withTree(ctx, name, func(j *job) error {
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
	return sal.HostError("snapshot the tree "+name, t.withTree(ctx, name, func(j *job) error {
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
	return sal.HostError("restore the tree "+name, t.withTree(ctx, name, func(j *job) error {
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

// source returns the path of a tree, or of one of its snapshots.
func (j *job) source(name, snapshot string) (string, error) {
	if err := sal.ValidTree(name); err != nil {
		return "", err
	}
	at, missing := path.Join("trees", name, "data"), sal.UnknownTree(name)
	if snapshot != "" {
		at = path.Join("trees", name, "snapshots", snapshot)
		missing = writ.Errorf(writ.CodeResourceUnknown, "the tree %s has no snapshot %q", name, snapshot)
	}
	exists, err := j.exists(at)
	if err == nil && !exists {
		err = missing
	}
	return at, err
}

// restored replaces the tree by its restored copy, if there is one.
func (j *job) restored() error {
	fresh, data := path.Join(j.at, "restored"), path.Join(j.at, "data")
	if exists, err := j.exists(fresh); err != nil || !exists {
		return err
	}
	j.step("remove the old content")
	if err := j.root.RemoveAll(data); err != nil {
		return err
	}
	j.step("put the restored content in place")
	if err := j.root.Rename(fresh, data); err != nil {
		return err
	}
	return j.sync(j.at)
}

// Snapshots returns the names of a tree's snapshots.
func (t *Trees) Snapshots(ctx context.Context, name string) ([]string, error) {
	if err := errors.Join(ctx.Err(), sal.ValidTree(name)); err != nil {
		return nil, err
	}
	return t.names(filepath.Join("trees", name, "snapshots"))
}

// RemoveSnapshot removes a snapshot. It renames the snapshot first, so that a partly removed one is never visible.
func (t *Trees) RemoveSnapshot(ctx context.Context, name, snapshot string) error {
	return sal.HostError("remove a snapshot of the tree "+name, t.withTree(ctx, name, func(j *job) error {
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

// discard moves a directory of a tree to work and removes it.
func (j *job) discard(dir string) error {
	work := path.Join(j.at, "work")
	j.step("clear work")
	if err := j.root.RemoveAll(work); err != nil {
		return err
	}
	j.step("put it aside")
	if err := j.root.Rename(dir, work); err != nil {
		return err
	}
	if err := j.sync(path.Dir(dir)); err != nil {
		return err
	}
	j.step("remove it")
	return j.root.RemoveAll(work)
}

// Remove removes a tree with its snapshots.
func (t *Trees) Remove(ctx context.Context, name string) error {
	return sal.HostError("remove the tree "+name, t.withTree(ctx, name, func(j *job) error {
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
	return t.names("trees")
}

// Clone copies a file and shares its blocks where the disk supports that.
func (t *Trees) Clone(ctx context.Context, from, to string, size int64) error {
	return sal.Clone(ctx, from, to, size, t.Step)
}

// withTree finishes interrupted operations on a tree and then calls do.
func (t *Trees) withTree(ctx context.Context, name string, do func(j *job) error) error {
	if err := errors.Join(ctx.Err(), sal.ValidTree(name)); err != nil {
		return err
	}
	if err := sal.MakeDir(t.Dir); err != nil {
		return err
	}
	root, err := os.OpenRoot(t.Dir)
	if err != nil {
		return err
	}
	defer root.Close()
	j := &job{Trees: t, root: root, at: path.Join("trees", name)}
	if err := j.restored(); err != nil {
		return err
	}
	return do(j)
}

// job is an operation on one tree.
type job struct {
	*Trees
	root *os.Root
	at   string // path of the tree's files, relative to root
}

func (j *job) step(name string) {
	if j.Step != nil {
		j.Step(name)
	}
}

func (j *job) exists(name string) (bool, error) {
	_, err := j.root.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

func (t *Trees) names(dir string) ([]string, error) {
	return sal.FileNames(filepath.Join(t.Dir, dir))
}
