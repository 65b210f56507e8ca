package btrfs

import (
	"context"
	"errors"

	"writ"
	"writ/sal/needs"
)

// Requirements examines whether a host can have a pool.
type Requirements struct {
	Dir string // directory of the pool, which need not exist
}

// Needs returns the requirements of a pool. They are optional: without btrfs, volumes are plain directories.
func (r Requirements) Needs() []needs.Need {
	return []needs.Need{
		{
			Name: "btrfs",
			Use:  "volumes are plain directories: sizes are not enforced, and snapshots and clones are copies",
			Fix:  "apt-get install -y btrfs-progs; mkfs.btrfs DEVICE; mount DEVICE DIRECTORY; then start the runner with --data in DIRECTORY, before the first volume",
			Look: r.look,
		},
		{
			Name: "simple quotas", Use: "blocks shared by clones do not count towards the share of a project",
			Fix:  "boot Linux 6.7 or newer; if full quotas are on: btrfs quota disable DIRECTORY, before the first volume",
			Look: r.lookQuota,
		},
	}
}

func (r Requirements) look(context.Context) (string, error) {
	at := needs.Nearest(r.Dir)
	if err := Usable(at); err != nil {
		return "", errors.New(writ.AsError(err).Message)
	}
	return "at " + at, nil
}

// lookQuota returns an error unless simple quotas are enabled, or can be enabled when the first volume is created.
func (r Requirements) lookQuota(ctx context.Context) (string, error) {
	if _, err := r.look(ctx); err != nil {
		return "", err
	}
	at := needs.Nearest(r.Dir)
	on, err := quotasOn(at)
	if err != nil {
		return "", err
	}
	if !on {
		if release := kernelRelease(); !needs.AtLeast(release, "6.7") {
			return "", errors.New("Linux " + release + " has full quotas only")
		}
		return "off until there is a volume", nil
	}
	simple, err := simpleQuota(at)
	if err == nil && !simple {
		err = errors.New("full quotas are on at " + at)
	}
	return "on", err
}
