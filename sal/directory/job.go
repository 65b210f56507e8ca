package directory

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path"

	"writ"
	"writ/sal"
)

// job is an operation on one tree.
type job struct {
	*Trees
	root *os.Root
	at   string // path of the tree's files, relative to root
}

// onTree completes an interrupted restore, removes the work of an interrupted call, and then calls `do`.
func onTree(ctx context.Context, t *Trees, name string, do func(j *job) error) error {
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
	if err := j.clear(); err != nil {
		return err
	}
	return do(j)
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

// restored replaces the tree by its restored copy, if a complete one exists.
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

// build calls `into` to create a tree that ends up at a path below root. It creates the tree at work and renames it
// when it is complete. If it fails, it removes the incomplete tree, which may have filled the disk.
func (j *job) build(ctx context.Context, to string, into func(ctx context.Context, to string) error) error {
	err := j.makeParent(to)
	if err == nil {
		err = into(ctx, j.work())
	}
	if err == nil {
		err = errors.Join(j.sync(j.work()), ctx.Err())
	}
	if err == nil {
		err = j.place(to)
	}
	if err != nil {
		return errors.Join(err, j.clear())
	}
	return nil
}

// makeParent creates and syncs the directories above a path.
func (j *job) makeParent(to string) error {
	j.step("make room")
	if err := j.root.MkdirAll(path.Dir(to), 0o700); err != nil {
		return err
	}
	for _, dir := range []string{".", path.Dir(j.at), j.at} { // these directories may be new
		if err := j.sync(dir); err != nil {
			return err
		}
	}
	return nil
}

// place renames work to its final path.
func (j *job) place(to string) error {
	j.step("put it in place")
	if err := j.root.Rename(j.work(), to); err != nil {
		return err
	}
	if err := j.sync(j.at); err != nil {
		return err
	}
	return j.sync(path.Dir(to))
}

// sync syncs a directory.
func (j *job) sync(dir string) error {
	j.step("sync " + path.Base(dir))
	f, err := j.root.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// discard moves a directory of a tree to work and removes it.
func (j *job) discard(dir string) error {
	j.step("put it aside")
	if err := j.root.Rename(dir, j.work()); err != nil {
		return err
	}
	if err := j.sync(path.Dir(dir)); err != nil {
		return err
	}
	return j.clear()
}

// work returns the path of a directory that is incomplete or no longer needed.
func (j *job) work() string { return path.Join(j.at, "work") }

// clear removes work, if it exists.
func (j *job) clear() error {
	if exists, err := j.exists(j.work()); err != nil || !exists {
		return err
	}
	j.step("clear work")
	return j.root.RemoveAll(j.work())
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
