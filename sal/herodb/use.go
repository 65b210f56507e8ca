package herodb

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"writ"
	"writ/sal"
	"writ/sal/catalog"
)

// use executes Alter operations.
func (j *job) use(ctx context.Context, r *sal.Record[own]) (sal.Outcome, error) {
	if err := r.Owned(j.Request); err != nil {
		return sal.Outcome{}, err
	}
	change, err := writ.ChangeUpdated, error(nil)
	switch args := j.Args.(type) {
	case *catalog.Backup:
		switch j.Operation.Verb {
		case "restore":
			err = j.restore(ctx, r, args.Backup)
		case "delete_backup":
			change, err = j.deleteBackup(ctx, args.Backup)
		default:
			change, err = j.backup(ctx, r, args.Backup)
		}
	default:
		if j.Operation.Verb != "rotate_secret" {
			return sal.Outcome{}, writ.Errorf(writ.CodeDriverMissing, "the driver of databases cannot do %s",
				j.Operation.Name())
		}
		err = j.rotate(ctx, r)
	}
	if err != nil {
		return sal.Outcome{}, err
	}
	return j.outcome(ctx, r, change)
}

// backup takes a snapshot of the data's tree while the engine keeps its files unchanged or is stopped.
func (j *job) backup(ctx context.Context, r *sal.Record[own], name string) (writ.Change, error) {
	all, err := j.Trees.Snapshots(ctx, j.tree())
	if err != nil {
		return "", err
	}
	if slices.Contains(all, name) {
		return writ.ChangeUnchanged, j.snapshot(ctx, name) // finishes an interrupted call
	}
	if err := sal.RoomForSnapshot(j.Resource, "backup", len(all)); err != nil {
		return "", err
	}
	in, err := j.serve(ctx, r)
	if err != nil {
		return "", err
	}
	if in.engine.live.hold == nil {
		if err := j.end(ctx, r.Own, grace); err != nil {
			return "", err
		}
		if err := j.snapshot(ctx, name); err != nil {
			return "", err
		}
		_, err = j.serve(ctx, r)
		return writ.ChangeUpdated, err
	}
	c, err := in.dial(ctx)
	if err != nil {
		return "", sal.HostError("reach "+j.Resource.String(), err)
	}
	defer c.close()
	release, err := in.engine.live.hold(ctx, c, in)
	if err != nil {
		return "", sal.HostError("pause the writes of "+j.Resource.String(), err)
	}
	defer release()
	return writ.ChangeUpdated, j.snapshot(ctx, name)
}

// deleteBackup deletes a backup. It returns ChangeUnchanged for an unknown backup: an earlier attempt may have deleted
// it.
func (j *job) deleteBackup(ctx context.Context, name string) (writ.Change, error) {
	all, err := j.Trees.Snapshots(ctx, j.tree())
	if err != nil {
		return "", err
	}
	j.step("delete a snapshot")
	if err := j.Trees.RemoveSnapshot(ctx, j.tree(), name); err != nil {
		return "", fmt.Errorf("delete a backup of %s: %w", j.Resource, err)
	}
	if !slices.Contains(all, name) {
		return writ.ChangeUnchanged, nil
	}
	return writ.ChangeUpdated, nil
}

func (j *job) snapshot(ctx context.Context, name string) error {
	j.step("keep a snapshot")
	if err := j.Trees.Snapshot(ctx, j.tree(), name); err != nil {
		return fmt.Errorf("store a backup of %s: %w", j.Resource, err)
	}
	return nil
}

// restore resets the data to a backup. It first records phase restoring; from then on, the restore is completed even
// after a crash.
func (j *job) restore(ctx context.Context, r *sal.Record[own], name string) error {
	all, err := j.Trees.Snapshots(ctx, j.tree())
	if err != nil {
		return err
	}
	if !slices.Contains(all, name) {
		return sal.UnknownSnapshot(j.Resource, "backup", name, all)
	}
	r.Own.Phase, r.Own.Backup = restoring, name
	if err := j.records().Put(r); err != nil {
		return err
	}
	return j.putBack(ctx, r)
}

// putBack restores the data from the backup and starts a process for it. If the restore fails, a process serves the
// previous data.
func (j *job) putBack(ctx context.Context, r *sal.Record[own]) error {
	if err := j.end(ctx, r.Own, grace); err != nil {
		return err
	}
	j.step("restore the tree")
	failed := j.Trees.Restore(ctx, j.tree(), r.Own.Backup)
	if ctx.Err() != nil {
		return ctx.Err() // the next attempt continues here
	}
	if failed != nil {
		r.Own.Phase = ready
		if err := j.records().Put(r); err != nil {
			return err
		}
		if _, err := j.serve(ctx, r); err != nil {
			return err
		}
		return fmt.Errorf("restore %s: %w", j.Resource, failed)
	}
	if _, err := j.ensureProcess(ctx, r, renew); err != nil {
		return err
	}
	r.Own.Phase, r.Own.Backup = ready, ""
	r.Generation++
	return j.records().Put(r)
}

// rotate generates another secret. The old secret is valid until the engine applies the new secret; they are never
// valid at the same time.
func (j *job) rotate(ctx context.Context, r *sal.Record[own]) error {
	if r.Own.Given {
		return writ.Errorf(writ.CodeResourceConflict, "%s uses the password of herodb.create", j.Resource).
			WithHint("set a new secret value (`writ secret set`), and run the script again")
	}
	in, err := j.serve(ctx, r)
	if err != nil {
		return err
	}
	next := r.Own
	next.Secret++
	if err := j.changeSecret(in, next, catalog.Text{}); err != nil {
		return err
	}
	r.Own = next
	r.Own.Phase = changing
	if err := j.records().Put(r); err != nil {
		return err
	}
	return j.apply(ctx, r)
}

// dropDump removes the backup file of a database that does not persist, so that the database starts empty as
// documented.
func (j *job) dropDump(in instance) error {
	path := filepath.Join(in.tree, dumpName)
	if _, err := os.Lstat(path); os.IsNotExist(err) {
		return nil
	}
	j.step("remove the dump")
	if err := os.Remove(path); err != nil {
		return sal.HostError("remove "+path, err)
	}
	return nil
}
