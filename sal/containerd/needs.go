package containerd

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"writ/sal/containerd/initprogram"
	"writ/sal/needs"
)

// Needs returns the requirements of containers on a host.
func (d *Driver) Needs() []needs.Need {
	const install = "apt-get install -y containerd runc; systemctl enable --now containerd"
	return []needs.Need{
		{Name: "root", Use: "there are no containers", Fix: "run the node as root", Vital: true, Look: needs.Root},
		{
			Name: "the socket of containerd", Use: "there are no containers",
			Fix:   install + "; if its socket is elsewhere, use --containerd SOCKET, also for `writ runner` and `writ dev`",
			Vital: true, Look: d.checkSocket,
		},
		{
			Name: "containerd", Use: "containers are neither made nor changed until it answers", Fix: install,
			Look: d.checkDaemon,
		},
		{
			Name: "the program runc", Use: "containers do not start", Fix: "apt-get install -y runc",
			Look: needs.Program("runc", ""),
		},
		{
			Name: "a snapshotter", Use: "containers are not made", Look: d.checkSnapshotter,
			Fix: "put the root of containerd's config.toml on btrfs, or on ext4 or xfs with overlayfs: modprobe overlay",
		},
		{
			Name: "controllers cpu, memory, pids", Use: "containers do not start", Look: checkControllers,
			Fix: "mount -t cgroup2 none /sys/fs/cgroup; no cgroup_disable= among the kernel's arguments",
		},
		{
			Name: "users of their own", Use: "root in a container is root of the host with few rights", Fix: idsFix,
			Look: func(ctx context.Context) (string, error) { return d.mappable.check(ctx, &d.Connection, d.IDs, d.Dir) },
		},
		{
			Name: "an init program", Use: "containers with init are refused", Fix: initprogram.Fix,
			Look: func(context.Context) (string, error) { return initprogram.Find(d.InitProgram) },
		},
		{
			Name: "the devices named", Use: "containers with missing devices are refused",
			Fix:  "plug them in or load their kernel modules, and restart the runner; or omit them from writ runner --device",
			Look: func(context.Context) (string, error) { return findDevices(d) },
		},
		{
			Name: "networks on this host", Use: "containers are on no network", Fix: "see the needs of networks",
			Look: needs.Given(d.Networks != nil),
		},
	}
}

// checkControllers checks that the kernel has the cgroup controllers that containers need, in cgroup version 2 or 1.
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

// findDevices lists the devices that the driver offers. It returns an error if one of them is missing.
func findDevices(d *Driver) (string, error) {
	if _, missing := d.Devices.Present(); missing != nil {
		return "", missing
	}
	if len(d.Devices) == 0 {
		return "none are named", nil
	}
	return strings.Join(d.Devices.Names(), ", "), nil
}
