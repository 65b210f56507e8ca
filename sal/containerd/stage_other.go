//go:build !linux

package containerd

import (
	"context"
	"errors"

	mounting "github.com/containerd/containerd/v2/core/mount"

	"writ/sal/catalog"
)

func (j *job) onStage(
	_ context.Context, r *record, _ string, _ []catalog.Mount, do func([]mounting.Mount) error,
) error {
	if r.Own.IDs != 0 {
		return overlayMaps()
	}
	return do(nil)
}

func (s stage) clear() error { return nil }

func overlayMaps() error { return errors.New("only Linux has user namespaces") }
