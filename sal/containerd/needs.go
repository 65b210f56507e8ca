package containerd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"writ"
	"writ/sal/needs"
)

// oldest is the oldest tested version of the daemon.
const oldest = "1.6"

// Needs returns the requirements of containers on a host.
func (d *Driver) Needs() []needs.Need {
	const install = "apt-get install -y containerd runc; systemctl enable --now containerd"
	return []needs.Need{
		{Name: "root", Use: "there are no containers", Fix: "run the node as root", Vital: true, Look: needs.Root},
		{Name: "the socket of containerd", Use: "there are no containers", Fix: install +
			"; or writ runner --containerd SOCKET", Vital: true, Look: d.checkSocket},
		{
			Name: "containerd", Use: "containers are neither made nor changed until it answers", Fix: install,
			Look: d.checkDaemon,
		},
		{
			Name: "the program runc", Use: "containers do not start", Fix: "apt-get install -y runc",
			Look: needs.Program("runc", "", "--version"),
		},
		{
			Name: "a snapshotter", Use: "containers are not made", Look: d.checkSnapshotter,
			Fix: "put the root of containerd's config.toml on btrfs, or on ext4 or xfs with overlayfs: modprobe overlay",
		},
		{
			Name: "controllers cpu, memory, pids", Use: "containers do not start", Look: checkControllers,
			Fix: "mount -t cgroup2 none /sys/fs/cgroup; no cgroup_disable= among the kernel's arguments",
		},
		d.needIDs(),
		{
			Name: "networks on this host", Use: "containers are on no network", Fix: "see the needs of networks",
			Look: needs.Given(d.Networks != nil),
		},
	}
}

func (d *Driver) checkSocket(context.Context) (string, error) {
	info, err := os.Stat(d.address())
	if errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("%s is missing", d.address())
	}
	if err == nil && info.Mode().Type() != os.ModeSocket {
		err = fmt.Errorf("%s is not a socket", d.address())
	}
	return d.address(), err
}

func (d *Driver) checkDaemon(ctx context.Context) (string, error) {
	if err := d.listens(ctx); err != nil {
		return "", err
	}
	daemon, err := d.connection()
	if err != nil {
		return "", err
	}
	version, err := daemon.Version(ctx)
	if err != nil {
		return "", fmt.Errorf("it does not answer at %s: %w", d.address(), err)
	}
	number := strings.TrimPrefix(version.Version, "v")
	if end := strings.IndexFunc(number, func(r rune) bool { return r != '.' && (r < '0' || r > '9') }); end >= 0 {
		number = number[:end] // for example "1.6.20~ds1"
	}
	if !needs.AtLeast(number, oldest) {
		return "", fmt.Errorf("it is %s, and %s or newer is needed", version.Version, oldest)
	}
	return version.Version, nil
}

// listens checks that the socket has a listener. The client would retry until its context ends.
func (d *Driver) listens(ctx context.Context) error {
	conn, err := new(net.Dialer).DialContext(ctx, "unix", d.address())
	if err != nil {
		return fmt.Errorf("no process listens at %s", d.address())
	}
	return conn.Close()
}

func (d *Driver) checkSnapshotter(ctx context.Context) (string, error) {
	if err := d.listens(ctx); err != nil {
		return "", err
	}
	daemon, err := d.connection()
	if err != nil {
		return "", err
	}
	name, err := snapshotter(d.in(ctx), daemon)
	if err != nil {
		return "", errors.New(writ.AsError(err).Message)
	}
	return name, nil
}

// checkControllers checks for the cgroup controllers of containers, in version 2 or 1.
func checkControllers(context.Context) (string, error) {
	const groups = "/sys/fs/cgroup"
	offered, _ := os.ReadFile(filepath.Join(groups, "cgroup.controllers"))
	version, missing := "version 2", []string(nil)
	for _, name := range []string{"cpu", "memory", "pids"} {
		if slices.Contains(strings.Fields(string(offered)), name) {
			continue
		}
		if _, err := os.Stat(filepath.Join(groups, name, "cgroup.procs")); err != nil {
			missing = append(missing, name)
			continue
		}
		version = "version 1"
	}
	if len(missing) > 0 {
		return "", fmt.Errorf("%s missing below %s", strings.Join(missing, ", "), groups)
	}
	return version, nil
}
