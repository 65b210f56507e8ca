package volume

import (
	"context"
	"errors"
	"slices"
	"strings"

	"writ"
	"writ/sal"
)

func (j *job) snapshot(ctx context.Context, r *record, name string) (sal.Outcome, error) {
	all, err := visibleSnapshots(ctx, j.Trees, j.Resource)
	if err != nil {
		return sal.Outcome{}, err
	}
	change := writ.ChangeUnchanged
	if !slices.Contains(all, name) {
		change = writ.ChangeUpdated
		if err := sal.RoomForSnapshot(j.Resource, "snapshot", len(all)); err != nil {
			return sal.Outcome{}, err
		}
	}
	if err := j.Trees.Snapshot(ctx, j.name, name); err != nil { // finishes an interrupted call
		return sal.Outcome{}, err
	}
	return j.outcome(ctx, r, change)
}

// deleteSnapshot deletes a snapshot. It returns ChangeUnchanged for an unknown snapshot: an earlier attempt may have
// deleted it.
func (j *job) deleteSnapshot(ctx context.Context, r *record, name string) (sal.Outcome, error) {
	all, err := visibleSnapshots(ctx, j.Trees, j.Resource)
	if err != nil {
		return sal.Outcome{}, err
	}
	if err := j.Trees.RemoveSnapshot(ctx, j.name, name); err != nil {
		return sal.Outcome{}, err
	}
	if !slices.Contains(all, name) {
		return j.outcome(ctx, r, writ.ChangeUnchanged)
	}
	return j.outcome(ctx, r, writ.ChangeUpdated)
}

func (j *job) restore(ctx context.Context, r *record, name string) (sal.Outcome, error) {
	if err := checkSnapshot(ctx, j.Trees, j.Resource, name); err != nil {
		return sal.Outcome{}, err
	}
	if err := j.close(ctx, r, restoring, sal.Idle); err != nil {
		return sal.Outcome{}, err
	}
	err := j.Trees.Restore(ctx, j.name, name)
	if err == nil {
		r.Generation++
		// The disk in the snapshot may be smaller. The user of a machine's process gets the disk back at the machine's next
		// start.
		err = j.disk(j.Trees.Path(j.name)).claim(r.Own.SizeGiB * gib)
	}
	if err := errors.Join(err, j.open(r)); err != nil {
		return sal.Outcome{}, err
	}
	return j.outcome(ctx, r, writ.ChangeUpdated)
}

// visibleSnapshots returns the sorted snapshots of a volume, without the snapshots for shipments.
func visibleSnapshots(ctx context.Context, trees sal.Trees, volume writ.ResourceID) ([]string, error) {
	all, err := trees.Snapshots(ctx, volume.HostName())
	return slices.DeleteFunc(all, func(s string) bool { return strings.HasPrefix(s, hiddenMark) }), err
}

// checkSnapshot returns an error if a volume lacks a snapshot.
func checkSnapshot(ctx context.Context, trees sal.Trees, volume writ.ResourceID, name string) error {
	all, err := visibleSnapshots(ctx, trees, volume)
	if err == nil && !slices.Contains(all, name) {
		err = sal.UnknownSnapshot(volume, "snapshot", name, all)
	}
	return err
}
