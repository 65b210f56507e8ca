// Package directory keeps trees as plain directories, on any disk. It promises what every keeper of trees promises, except for two things
// that it admits wherever drivers are listed: nothing stops a tree from growing over its bound, and snapshots, copies and restores copy
// every byte, unless the disk lets files share blocks. Copies keep links of both kinds, pipes, modes, times, extended attributes and, if the node
// runs as root, owners. The package must not know what is in a tree.
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

// Trees are the trees in a directory.
//
// Below Dir, trees/NAME/data is a tree and trees/NAME/snapshots/* its snapshots. What is not finished is trees/NAME/work: a tree comes into
// being there and is renamed when it is whole and synced. A restored tree that has to take the place of data is trees/NAME/restored.
type Trees struct {
	Dir string // required: an absolute path
	// Step is called before every single change of Dir; tests stop the driver there. It may be nil.
	Step func(name string)
}

var _ sal.Trees = (*Trees)(nil)

// About admits what plain directories lack.
func (t *Trees) About() (kind, detail string) {
	return "directory", "plain directories: sizes are noted and not enforced, snapshots and clones are full copies"
}

// Path is where a tree is.
func (t *Trees) Path(name string) string { return filepath.Join(t.Dir, "trees", name, "data") }

// Remedy removes a tree with its snapshots, and what is not finished of it.
func (t *Trees) Remedy(name string) string {
	return sal.Command("rm", "-r", filepath.Join(t.Dir, "trees", name))
}

// Room is always there: no project is bounded.
func (t *Trees) Room(ctx context.Context, name string, _ sal.Bound) error {
	return errors.Join(ctx.Err(), sal.ValidTree(name))
}

// Make makes a tree. Its bound is of no account.
func (t *Trees) Make(ctx context.Context, name string, _ sal.Bound) (string, error) {
	err := t.on(ctx, name, func(j *job) error {
		exists, err := j.exists(path.Join(j.at, "data"))
		if err != nil || exists {
			return err
		}
		return j.build(ctx, path.Join(j.at, "data"), func(_ context.Context, to string) error { return j.root.Mkdir(to, 0o755) })
	})
	if err != nil {
		return "", sal.HostError("make the tree "+name, err)
	}
	return t.Path(name), nil
}

// Copy copies a tree or a snapshot.
func (t *Trees) Copy(ctx context.Context, name string, _ sal.Bound, from, snapshot string) (string, error) {
	err := t.on(ctx, name, func(j *job) error {
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
	err = t.on(ctx, name, func(j *job) error {
		dir, err = j.source(name, snapshot)
		return err
	})
	if err != nil {
		return "", nil, sal.HostError("look at the tree "+name, err)
	}
	return filepath.Join(t.Dir, dir), func() error { return nil }, nil
}

// Keep looks whether a tree is there.
func (t *Trees) Keep(ctx context.Context, name string, _ sal.Bound) (drift []sal.Drift, err error) {
	err = t.on(ctx, name, func(j *job) error {
		if exists, err := j.exists(path.Join(j.at, "data")); err != nil || exists {
			return err
		}
		drift = []sal.Drift{{What: "its content is gone: there is no directory " + t.Path(name)}}
		return nil
	})
	return drift, sal.HostError("look at the tree "+name, err)
}

// Snapshot copies the tree.
func (t *Trees) Snapshot(ctx context.Context, name, snapshot string) error {
	return sal.HostError("keep a snapshot of the tree "+name, t.on(ctx, name, func(j *job) error {
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

// Restore copies the snapshot, and lets the copy take the tree's place when it is whole.
func (t *Trees) Restore(ctx context.Context, name, snapshot string) error {
	return sal.HostError("put the tree "+name+" back", t.on(ctx, name, func(j *job) error {
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

// source is where a tree is, or a snapshot of it.
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

// restored puts a restored tree in its place, if there is one.
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

// Snapshots are the names of a tree's snapshots.
func (t *Trees) Snapshots(ctx context.Context, name string) ([]string, error) {
	if err := errors.Join(ctx.Err(), sal.ValidTree(name)); err != nil {
		return nil, err
	}
	return t.names(filepath.Join("trees", name, "snapshots"))
}

// RemoveSnapshot removes a snapshot: it is none any more before the first byte of it goes.
func (t *Trees) RemoveSnapshot(ctx context.Context, name, snapshot string) error {
	return sal.HostError("remove a snapshot of the tree "+name, t.on(ctx, name, func(j *job) error {
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

// discard removes a directory of a tree by way of work.
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
	return sal.HostError("remove the tree "+name, t.on(ctx, name, func(j *job) error {
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

// Clone copies a file, sharing its blocks where the disk can do that.
func (t *Trees) Clone(ctx context.Context, from, to string, size int64) error {
	return sal.Clone(ctx, from, to, size, t.Step)
}

// on does something with a tree, after finishing what a crash interrupted.
func (t *Trees) on(ctx context.Context, name string, do func(j *job) error) error {
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

// job is a piece of work on one tree.
type job struct {
	*Trees
	root *os.Root
	at   string // what belongs to the tree, below root
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
