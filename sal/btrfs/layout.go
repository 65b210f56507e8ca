package btrfs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"writ"
	"writ/sal"
)

// layout names the directories of a pool and lists their content. Below dir, trees/NAME is a tree and
// snapshots/NAME/SNAPSHOT is a snapshot of it; both are subvolumes. work/NAME is a subvolume that is unfinished or no
// longer needed.
type layout struct{ dir string }

// topDirs are the directories in the directory of a pool.
var topDirs = []string{"trees", "snapshots", "work"}

// Path returns the path of a tree.
func (l layout) Path(name string) string { return filepath.Join(l.dir, "trees", name) }

func (l layout) work(name string) string { return filepath.Join(l.dir, "work", name) }

// snapshots returns the directory of a tree's snapshots.
func (l layout) snapshots(name string) string { return filepath.Join(l.dir, "snapshots", name) }

func (l layout) snapshot(name, snapshot string) string {
	return filepath.Join(l.snapshots(name), snapshot)
}

// Remedy returns a command that removes the subvolumes of a tree and of its snapshots, if they exist, and the directory
// of the snapshots.
func (l layout) Remedy(name string) string {
	tree, snapshots, work := sal.Command(l.Path(name)), sal.Command(l.snapshots(name)), sal.Command(l.work(name))
	return fmt.Sprintf("for s in %s %s/* %s; do btrfs subvolume show \"$s\" >/dev/null 2>&1 && "+
		"btrfs subvolume delete \"$s\"; done; rm -rf %s", tree, snapshots, work, snapshots)
}

// Snapshots returns the names of a tree's snapshots.
func (l layout) Snapshots(ctx context.Context, name string) ([]string, error) {
	if err := errors.Join(ctx.Err(), sal.ValidTree(name)); err != nil {
		return nil, err
	}
	return sal.FileNames(l.snapshots(name))
}

// List returns the sorted names of all trees, including trees with only snapshots or unfinished work.
func (l layout) List(ctx context.Context) ([]string, error) {
	var all []string
	for _, dir := range topDirs {
		some, err := sal.FileNames(filepath.Join(l.dir, dir))
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
	}
	slices.Sort(all)
	return slices.Compact(all), ctx.Err()
}

// source returns the path of a tree, or of one of its snapshots if snapshot is not empty. It returns RESOURCE_UNKNOWN
// if the tree or snapshot does not exist.
func (l layout) source(name, snapshot string) (path string, err error) {
	if err := sal.ValidTree(name); err != nil {
		return "", err
	}
	path, missing := l.Path(name), sal.UnknownTree(name)
	if snapshot != "" {
		path = l.snapshot(name, snapshot)
		missing = writ.Errorf(writ.CodeResourceUnknown, "the tree %s has no snapshot %q", name, snapshot)
	}
	there, err := isSubvolume(path)
	if err != nil || !there {
		return "", cmp.Or(sal.HostError("find the tree", err), missing)
	}
	return path, nil
}

// create creates the directories of the pool. It returns DRIVER_MISSING if the file system is not btrfs.
func (l layout) create() error {
	if err := sal.MakeDir(l.dir); err != nil {
		return err
	}
	if err := Usable(l.dir); err != nil {
		return err
	}
	for _, dir := range topDirs {
		if err := sal.MakeDir(filepath.Join(l.dir, dir)); err != nil {
			return err
		}
	}
	return nil
}
