package netdev

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"writ"
	"writ/internal/lazyregexp"
	"writ/internal/netns"
	"writ/internal/userns"
	"writ/sal"
)

// namespaces are the network namespaces of owners, each kept alive by a file. All nodes of a host share the directory
// of these files, so each node marks the namespaces that it created.
type namespaces struct {
	*changes
	dir   string
	marks string // directory with a file for each namespace that this node made
}

// path returns the file of an owner's namespace.
func (n *namespaces) path(owner writ.UID) string {
	return filepath.Join(n.dir, ownerID(owner).HostName())
}

// ensure creates the namespace of an owner unless it exists.
func (n *namespaces) ensure(r *sal.Record[holding]) error {
	path := n.path(r.UID)
	exists, err := isNamespace(path)
	if err != nil {
		return err
	}
	if !exists {
		n.repaired("the namespace of %s was missing", r.Own.Owner)
		return n.create(path, r.Own.IDs)
	}
	if !n.isMarked(filepath.Base(path)) { // created by an earlier version
		return n.mark(filepath.Base(path))
	}
	return nil
}

// isNamespace reports whether a namespace is mounted on a file.
func isNamespace(path string) (bool, error) {
	var s unix.Statfs_t
	err := unix.Statfs(path, &s)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil && s.Type == unix.NSFS_MAGIC, err
}

// create creates a network namespace that a file keeps alive. The network namespace belongs to a user namespace that
// maps root to the host's user with the number `ids`. If `ids` is 0, it belongs to the user namespace of the host.
func (n *namespaces) create(path string, ids uint32) error {
	if err := n.mark(filepath.Base(path)); err != nil {
		return err
	}
	n.step("make the file of the namespace")
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	if n.dir == DefaultNamespaces {
		n.step("share the directory of the namespaces")
		if err := netns.Prepare(n.dir); err != nil {
			return fmt.Errorf("make %s a shared mount point: %w", n.dir, err)
		}
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDONLY, 0o444)
	if err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	n.step("make the namespace")
	if ids != 0 {
		return userns.KeepNetwork(ids, path)
	}
	return netns.Make(path)
}

// remove removes the file of a namespace. The namespace ends when it has no processes.
func (n *namespaces) remove(path string) error {
	there, err := isNamespace(path)
	if err == nil && there {
		n.step("unmount the namespace")
		err = unix.Unmount(path, unix.MNT_DETACH)
	}
	if err != nil {
		return fmt.Errorf("unmount %s: %w", path, err)
	}
	if _, err := os.Lstat(path); err == nil {
		n.step("remove the file of the namespace")
		if err := os.Remove(path); err != nil {
			return err
		}
	}
	if err := os.Remove(n.markPath(filepath.Base(path))); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// markPath returns the file that marks a namespace as made by this node.
func (n *namespaces) markPath(name string) string { return filepath.Join(n.marks, name) }

// mark marks a namespace as made by this node.
func (n *namespaces) mark(name string) error {
	n.step("mark the namespace")
	if err := os.MkdirAll(n.marks, 0o700); err != nil {
		return err
	}
	return os.WriteFile(n.markPath(name), nil, 0o600)
}

// isMarked reports whether this node made a namespace.
func (n *namespaces) isMarked(name string) bool {
	_, err := os.Lstat(n.markPath(name))
	return err == nil
}

// namespaceName matches the names of namespaces that only this driver uses.
var namespaceName = lazyregexp.New(`^p[a-z2-7]{10}$`)

// orphans returns the namespaces of this node that are not `known`.
func (n *namespaces) orphans(known map[string]bool) (all []sal.Orphan, err error) {
	files, err := os.ReadDir(n.dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, f := range files {
		if namespaceName.MatchString(f.Name()) && !known[f.Name()] && n.isMarked(f.Name()) {
			path := filepath.Join(n.dir, f.Name())
			all = append(all, sal.Orphan{
				Kind: "namespace", Name: f.Name(),
				Remedy: sal.Command("umount", "-l", path) + "; " + sal.Command("rm", path),
			})
		}
	}
	return all, nil
}
