package imagestore

import (
	"context"
	"strings"

	"github.com/containerd/containerd/v2/client"
	"github.com/containerd/errdefs"

	"writ"
)

// Snapshotters are the supported snapshotters in order of preference.
var Snapshotters = []string{"btrfs", "overlayfs"}

// Snapshotter returns the first supported snapshotter that the daemon has. It returns DRIVER_MISSING if the daemon has
// none.
func Snapshotter(ctx context.Context, daemon *client.Client) (string, error) {
	plugins, err := daemon.IntrospectionService().Plugins(ctx, "type==io.containerd.snapshotter.v1")
	if err != nil {
		return "", Failed("ask containerd for its snapshotters", err)
	}
	for _, name := range Snapshotters {
		for _, p := range plugins.Plugins {
			if p.ID == name && p.InitErr == nil {
				return name, nil
			}
		}
	}
	return "", writ.Errorf(writ.CodeDriverMissing, "containerd has no snapshotter of %s",
		strings.Join(Snapshotters, " and ")).
		WithHint("its directory must be on btrfs, or on a file system that overlayfs works on")
}

// NoSnapshotter reports whether an error means that the daemon does not have the snapshotter.
func NoSnapshotter(err error) bool {
	return errdefs.IsInvalidArgument(err) || errdefs.IsNotImplemented(err)
}
