package containerd

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"writ"
	"writ/sal"
	"writ/sal/catalog"
	"writ/sal/containerd/runtimespec"
	"writ/sal/containerd/stage"
	"writ/sal/logfile"
)

// The files of a container are in containers/NAME/ID.files, numbered in the order of their paths. Each file is mounted
// into the container read-only, so the program sees a change of its content. Only root of the host can enter the
// directory. ID.masks contains the secrets that occur in files, so that logs can hide them. Both are removed with the
// container.

func filesDir(d *Driver, resource writ.ResourceID, id string) string {
	return filepath.Join(placeOf(d.Dir, resource), id+".files")
}

func masksPath(d *Driver, resource writ.ResourceID, id string) string {
	return filepath.Join(placeOf(d.Dir, resource), id+".masks")
}

// sourceOf returns the source of the mount of a file in a new container. For a container with its own users, the source
// is on the stage of the container; see package stage.
func sourceOf(d *Driver, r *record, i int) string {
	dir := filesDir(d, r.Resource, r.Own.Other)
	if r.Own.IDs != 0 {
		dir = stageOf(d, r.Own.Other).Files()
	}
	return filepath.Join(dir, strconv.Itoa(i))
}

// filesIn returns the files in the arguments, in the order of their paths.
func filesIn(args *catalog.ContainerCreate) (all []*runtimespec.File, err error) {
	for _, path := range slices.Sorted(maps.Keys(args.Files)) {
		f := args.Files[path]
		place := &runtimespec.File{Path: path, Owner: f.Owner, Mode: modeOf(f.File)}
		if place.Content, err = f.Content(path); err != nil {
			return nil, err
		}
		all = append(all, place)
	}
	return all, nil
}

func modeOf(f catalog.File) fs.FileMode {
	mode, err := strconv.ParseUint(cmp.Or(f.Mode, f.DefaultMode()), 8, 9)
	if err != nil {
		return 0o400
	}
	return fs.FileMode(mode)
}

// writeFiles writes the files of a new container, and their secrets for logs.
func writeFiles(j *job, id string, p *plan) error {
	var err error
	if dir := filesDir(j.Driver, j.Resource, id); len(p.files) > 0 {
		j.Step.step("write the files of the call")
		err = errors.Join(os.RemoveAll(dir), os.MkdirAll(dir, 0o700)) // a killed runner may have left a part
		for i, f := range p.files {
			if err == nil {
				err = writeFile(filepath.Join(dir, strconv.Itoa(i)), f)
			}
		}
		if err == nil {
			err = sal.SyncDir(dir)
		}
	}
	if err == nil {
		err = writeMasks(j, id, p.args, nil)
	}
	return sal.HostError("write the files of "+j.Resource.String(), err)
}

// writeFile writes a file, or changes it in place. It sets the mode last, so that other users get access only when the
// file has its owner and content.
//
//failpoint:none the caller names the write
func writeFile(path string, f *runtimespec.File) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	_, err = file.WriteAt([]byte(f.Content), 0)
	if err == nil {
		err = file.Truncate(int64(len(f.Content)))
	}
	if err == nil {
		err = file.Chown(int(f.UID), int(f.GID))
	}
	if err == nil {
		err = file.Chmod(f.Mode)
	}
	return errors.Join(err, file.Sync(), file.Close())
}

// changeFiles changes the content of files of a container, and signals its program if a file asks for it. After an
// interrupted change it writes all files.
func changeFiles(ctx context.Context, j *job, r *record, args *catalog.ContainerCreate) error {
	old, err := argsOf(r)
	if err != nil {
		return err
	}
	files, err := filesIn(args)
	if err != nil {
		return err
	}
	all := r.Own.FilesChanging
	r.Own.FilesChanging = true
	if err := j.put(r, r.Own.Phase); err != nil {
		return err
	}
	earlier, err := earlierMasks(j.Driver, r, args)
	if err != nil {
		return err
	}
	// before the files, because the program may log a new secret at once
	if err := writeMasks(j, r.Own.Container, args, earlier); err != nil {
		return sal.HostError("write the files of "+r.Resource.String(), err)
	}
	j.health.Interrupt(j.Resource) // a probe that began before does not hide the new secrets
	dir, signal := filesDir(j.Driver, r.Resource, r.Own.Container), false
	for i, f := range files {
		if !all && old.Files[f.Path].Text.Equal(args.Files[f.Path].Text) {
			continue
		}
		j.Step.step("change a file")
		if err := changeFile(filepath.Join(dir, strconv.Itoa(i)), f); err != nil {
			return sal.HostError("change the file "+f.Path+" of "+r.Resource.String(), err)
		}
		signal = signal || args.Files[f.Path].OnChange == catalog.OnChangeSignal
	}
	if !signal || r.Own.Stopped {
		return nil
	}
	return signalProgram(ctx, j, r)
}

// replacesForFiles reports whether a change of files needs a new container. It returns true if the container has more
// than maxEarlier earlier secrets: a new container has a new log, which does not contain them.
func replacesForFiles(j *job, r *record) bool {
	old, err := argsOf(r)
	if err != nil {
		return true
	}
	args := createArgs(j.Args)
	if catalog.FilesReplace(old.Files, args.Files) {
		return true
	}
	earlier, err := earlierMasks(j.Driver, r, args)
	return err == nil && len(earlier) > maxEarlier
}

// signalProgram sends SIGHUP to the program of a container, if it runs.
func signalProgram(ctx context.Context, j *job, r *record) error {
	now, err := inspect(ctx, j.daemon, r.Own.Container)
	if err != nil || !now.running() {
		return err
	}
	task, err := j.task(ctx, r.Own.Container)
	if err != nil {
		return err
	}
	j.Step.step("signal the program")
	if err := task.Kill(ctx, syscall.SIGHUP); err != nil && !gone(err) {
		return failed("send SIGHUP to "+r.Resource.String(), err)
	}
	return nil
}

// changeFile changes the content and mode of an existing file. The file keeps its owner.
func changeFile(path string, f *runtimespec.File) error {
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return fmt.Errorf("metadata of %s is missing", path)
	}
	changed := *f
	changed.UID, changed.GID = owner.Uid, owner.Gid
	return writeFile(path, &changed)
}

// removeFiles removes the files of a container.
func removeFiles(j *job, id string) error {
	dir, masks := filesDir(j.Driver, j.Resource, id), masksPath(j.Driver, j.Resource, id)
	j.Step.step("remove the files of the call")
	err := os.RemoveAll(dir)
	if e := os.Remove(masks); !errors.Is(e, fs.ErrNotExist) {
		err = errors.Join(err, e)
	}
	return sal.HostError("remove the files of "+j.Resource.String(), err)
}

// checkPlaces checks that each file is at its path in the container. Before a restart, a program may have replaced a
// directory in its layer by a symbolic link. The runtime then mounts the file at another path.
func checkPlaces(j *job, id string, pid uint32, args *catalog.ContainerCreate) error {
	if len(args.Files) == 0 {
		return nil
	}
	dir := filesDir(j.Driver, j.Resource, id)
	for i, path := range slices.Sorted(maps.Keys(args.Files)) {
		ours, err := os.Lstat(filepath.Join(dir, strconv.Itoa(i)))
		if err != nil {
			return sal.HostError("inspect the files of "+j.Resource.String(), err)
		}
		there, err := stage.Lstat(fmt.Sprintf("/proc/%d/root", pid), path)
		if err != nil || !os.SameFile(ours, there) {
			return writ.Errorf(writ.CodeResourceConflict, "the file %s is not at its path in %s: a symbolic link leads away",
				path, j.Resource).
				WithHint("let the program keep the directories of its files, or use another path")
		}
	}
	return nil
}

// checkCreated is checkPlaces for a created process. If the check fails, it removes the process, so that no later call
// starts it.
func checkCreated(ctx context.Context, j *job, id string, pid uint32, args *catalog.ContainerCreate) error {
	err := checkPlaces(j, id, pid, args)
	if err == nil {
		return nil
	}
	undo, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoLimit)
	defer cancel()
	return errors.Join(err, j.end(undo, nil, id, 0))
}

// masksIn returns the secrets in the environment and the files of a container.
func masksIn(args *catalog.ContainerCreate) (logfile.Secrets, error) {
	all := logfile.Secrets{}
	texts := slices.Collect(maps.Values(args.Env))
	for _, f := range args.Files {
		texts = append(texts, f.Text)
	}
	return all, addMasks(all, texts)
}

// addMasks adds the secrets in texts to the secrets of a log.
func addMasks(all logfile.Secrets, texts []catalog.Text) error {
	for _, text := range texts {
		values, err := text.Secrets()
		if err != nil {
			return err
		}
		for name, value := range values {
			for _, value := range []string{value, strings.TrimSpace(value)} {
				if len(value) >= leastSecret {
					all[value] = name.String()
				}
			}
		}
	}
	return nil
}

// maxEarlier limits the earlier secrets of a running container that writeMasks keeps. The time to read a log grows with
// their number.
const maxEarlier = 256

// earlierMasks returns the stored secrets of a container that its new arguments do not contain. Its log may contain
// them, and its program may still print them.
func earlierMasks(d *Driver, r *record, args *catalog.ContainerCreate) (logfile.Secrets, error) {
	stored, err := storedMasks(d, r)
	if err != nil {
		return nil, err
	}
	now, err := masksIn(args)
	maps.DeleteFunc(stored, func(value, _ string) bool { return now[value] != "" })
	return stored, err
}

// writeMasks stores the secrets of a container for its logs, together with earlier secrets. It stores none if every
// secret is the whole value of a variable, because secretsOf then reads the values from the daemon.
func writeMasks(j *job, id string, args *catalog.ContainerCreate, earlier logfile.Secrets) error {
	path := masksPath(j.Driver, j.Resource, id)
	inFiles := slices.ContainsFunc(slices.Collect(maps.Values(args.Files)),
		func(f catalog.KeptFile) bool { return f.Text.HasSecret() })
	inTexts := slices.ContainsFunc(slices.Collect(maps.Values(args.Env)), catalog.Text.IsComposed)
	if !inFiles && !inTexts {
		return nil
	}
	masks, err := masksIn(args)
	if err != nil {
		return err
	}
	maps.Copy(masks, earlier)
	text, err := json.Marshal(masks)
	if err != nil {
		return err
	}
	j.Step.step("write the secrets for logs")
	return sal.WriteFile(path, 0o600, text)
}

// storedMasks returns the secrets that writeMasks stored for the current container, or nil.
func storedMasks(d *Driver, r *record) (masks logfile.Secrets, err error) {
	text, err := os.ReadFile(masksPath(d, r.Resource, r.Own.Container))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &masks)
	}
	return masks, sal.HostError("read the secrets of "+r.Resource.String()+" for logs", err)
}
