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

// Trees keeps trees as plain directories: nothing bounds them, and snapshots copy every byte unless the disk shares blocks of files.
// Different trees may be used at the same time.
//
// Below Dir, trees/NAME/data is a tree and trees/NAME/snapshots/* its snapshots. What is not finished is trees/NAME/work; a restored tree
// that is whole and has to take the place of data is trees/NAME/restored.
type Trees struct {
	Dir string // required: an absolute path
	// Step is called before every single change of Dir; tests stop the driver there. It may be nil.
	Step func(name string)
}

var _ sal.Trees = (*Trees)(nil)

// Make makes a tree. Its size is of no account.
func (t *Trees) Make(ctx context.Context, name string, _ int64) (string, error) {
	data := ""
	err := t.on(ctx, name, func(j *job) error {
		data = filepath.Join(t.Dir, j.at, "data")
		exists, err := j.exists(path.Join(j.at, "data"))
		if err != nil || exists {
			return err
		}
		return j.build(ctx, path.Join(j.at, "data"), func(_ context.Context, to string) error { return j.root.Mkdir(to, 0o755) })
	})
	if err != nil {
		return "", sal.HostError("make the tree "+name, err)
	}
	return data, nil
}

// Snapshot copies the tree.
func (t *Trees) Snapshot(ctx context.Context, name, snapshot string) error {
	return sal.HostError("keep a snapshot of the tree "+name, t.on(ctx, name, func(j *job) error {
		data, to := path.Join(j.at, "data"), path.Join(j.at, "snapshots", snapshot)
		if err := valid(snapshot); err != nil {
			return err
		}
		if exists, err := j.exists(to); err != nil || exists {
			return err
		}
		if exists, err := j.exists(data); err != nil || !exists {
			return errors.Join(err, unknownTree(name))
		}
		return j.build(ctx, to, j.copyOf(data))
	}))
}

// Restore copies the snapshot, and lets the copy take the tree's place when it is whole.
func (t *Trees) Restore(ctx context.Context, name, snapshot string) error {
	return sal.HostError("put the tree "+name+" back", t.on(ctx, name, func(j *job) error {
		if err := valid(snapshot); err != nil {
			return err
		}
		from := path.Join(j.at, "snapshots", snapshot)
		if exists, err := j.exists(from); err != nil || !exists {
			return errors.Join(err, writ.Errorf(writ.CodeResourceUnknown, "the tree %s has no snapshot %q", name, snapshot))
		}
		if err := j.build(ctx, path.Join(j.at, "restored"), j.copyOf(from)); err != nil {
			return err
		}
		return j.restored()
	}))
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
	if err := errors.Join(ctx.Err(), valid(name)); err != nil {
		return nil, err
	}
	return t.names(filepath.Join("trees", name, "snapshots"))
}

// RemoveSnapshot removes a snapshot: it is none any more before the first byte of it goes.
func (t *Trees) RemoveSnapshot(ctx context.Context, name, snapshot string) error {
	return sal.HostError("remove a snapshot of the tree "+name, t.on(ctx, name, func(j *job) error {
		if err := valid(snapshot); err != nil {
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
	if err := errors.Join(ctx.Err(), valid(name)); err != nil {
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
	j := &job{
		Driver:  &Driver{Dir: t.Dir, Step: t.Step},
		Request: sal.Request{Progress: func(string) {}},
		root:    root,
		at:      path.Join("trees", name),
	}
	if err := j.restored(); err != nil {
		return err
	}
	return do(j)
}

func (t *Trees) names(dir string) ([]string, error) {
	entries, err := os.ReadDir(filepath.Join(t.Dir, dir))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, sal.HostError("list "+dir, err)
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
