package netdev

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"writ"
	"writ/internal/netns"
	"writ/internal/userns"
	"writ/sal"
)

// host is the namespace of the networks, as seen from a thread inside it.
type host struct {
	*Driver
	kernel *netlink.Handle
	subnet netip.Prefix // the host's range in the overlay; zero unless requested
	drift  []sal.Drift  // differences that were repaired
	read   *state       // our rules, nil if they have changed since
}

// enter moves the calling thread to the driver's namespace and locks the driver. The same goroutine must call leave.
func (d *Driver) enter(ctx context.Context) (h *host, leave func(), err error) {
	if err := ctx.Err(); err != nil {
		return nil, nil, err
	}
	d.mu.Lock()
	if err := ctx.Err(); err != nil {
		d.mu.Unlock()
		return nil, nil, err
	}
	back := func() {}
	if d.Netns != "" {
		if back, err = netns.Enter(d.Netns); err != nil {
			d.mu.Unlock()
			return nil, nil, failed("enter the network namespace "+d.Netns, err)
		}
	}
	kernel, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		back()
		d.mu.Unlock()
		return nil, nil, failed("open a netlink socket", err)
	}
	h = &host{Driver: d, kernel: kernel}
	return h, h.leave(back), nil
}

// leave undoes enter.
func (h *host) leave(back func()) func() {
	return func() {
		if h.read != nil {
			h.read.close()
		}
		h.kernel.Close()
		back()
		h.mu.Unlock()
	}
}

// enterWithRange is enter with the host's range in the overlay.
func (d *Driver) enterWithRange(ctx context.Context) (h *host, leave func(), err error) {
	subnet, err := d.subnet(ctx)
	if err != nil {
		return nil, nil, err
	}
	if h, leave, err = d.enter(ctx); err != nil {
		return nil, nil, err
	}
	h.subnet = subnet
	return h, leave, nil
}

// subnet returns the host's range in the overlay.
func (d *Driver) subnet(ctx context.Context) (netip.Prefix, error) {
	if d.Overlay == nil {
		return netip.Prefix{}, writ.Errorf(writ.CodeDriverMissing, "this node has no overlay to provide addresses")
	}
	subnet, err := d.Overlay.Subnet(ctx)
	if err == nil {
		err = checkSubnet(subnet)
	}
	if err != nil {
		return netip.Prefix{}, failed("read the node's address range", err)
	}
	return subnet, nil
}

// namespacePath returns the path of an owner's namespace.
func (d *Driver) namespacePath(owner writ.UID) string {
	dir := d.Namespaces
	if dir == "" {
		dir = DefaultNamespaces
	}
	return filepath.Join(dir, ownerID(owner).HostName())
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

// makeNamespace creates a network namespace that a file keeps alive. Its user namespace begins with host user ids, or
// is the host's if ids is 0.
func (h *host) makeNamespace(path string, ids uint32) error {
	if err := h.markNamespace(filepath.Base(path)); err != nil {
		return err
	}
	h.step("make the file of the namespace")
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDONLY, 0o444)
	if err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	h.step("make the namespace")
	if ids != 0 {
		return userns.KeepNetwork(ids, path)
	}
	return netns.Make(path)
}

// removeNamespace removes the file of a namespace. The namespace ends when it has no processes.
func (h *host) removeNamespace(path string) error {
	there, err := isNamespace(path)
	if err == nil && there {
		h.step("unmount the namespace")
		err = unix.Unmount(path, unix.MNT_DETACH)
	}
	if err != nil {
		return fmt.Errorf("unmount %s: %w", path, err)
	}
	if _, err := os.Lstat(path); err == nil {
		h.step("remove the file of the namespace")
		if err := os.Remove(path); err != nil {
			return err
		}
	}
	if err := os.Remove(h.mark(filepath.Base(path))); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// mark returns the path of the mark that this node made a namespace. All nodes of a host share the directory of
// namespaces.
func (d *Driver) mark(namespace string) string { return filepath.Join(d.Dir, "namespaces", namespace) }

// markNamespace marks a namespace as made by this node.
func (h *host) markNamespace(namespace string) error {
	h.step("mark the namespace")
	if err := os.MkdirAll(filepath.Dir(h.mark(namespace)), 0o700); err != nil {
		return err
	}
	return os.WriteFile(h.mark(namespace), nil, 0o600)
}

// isMarked reports whether this node made a namespace.
func (d *Driver) isMarked(namespace string) bool {
	_, err := os.Lstat(d.mark(namespace))
	return err == nil
}

// failed returns an error about a refusal of the kernel or the disk.
func failed(doing string, err error) error {
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) {
		return writ.Errorf(writ.CodeDriverRefused, "cannot %s: %w", doing, err).
			WithHint("run the node as root, or with CAP_NET_ADMIN and CAP_SYS_ADMIN")
	}
	return sal.HostError(doing, err)
}
