package image

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"writ"
	"writ/sal"
)

// treeName is the name of the tree. It differs from every result of writ.ResourceID.HostName.
const treeName = "images"

// store holds the files of all images in one tree. A file stays while the record of an image needs it.
type store struct {
	records *sal.Records[own]
	trees   sal.Trees
	locks   *sal.Locks
	step    func(name string)
}

// find returns the directory of the tree, or "" if no image was ever fetched.
func (s store) find(ctx context.Context) (dir string, err error) {
	all, err := s.trees.List(ctx)
	if err != nil || !slices.Contains(all, treeName) {
		return "", err
	}
	return s.create(ctx)
}

// create creates the tree and returns its directory. Concurrent calls wait for each other.
func (s store) create(ctx context.Context) (dir string, err error) {
	unlock, err := s.locks.Take(ctx, treeName)
	if err != nil {
		return "", err
	}
	defer unlock()
	return s.trees.Make(ctx, treeName, sal.Bound{})
}

// publish renames the file `from` to the name of the image and records it under the same lock, so that no other call
// sees a file without an image. If `from` is empty, the image must have its file already.
func (s store) publish(ctx context.Context, r *record, from string) error {
	unlock, err := s.locks.Take(ctx, contentOf(r).sha256)
	if err != nil {
		return err
	}
	defer unlock()
	if from != "" {
		s.step("name the image")
		if err := os.Rename(from, pathOf(r)); err != nil {
			return err
		}
		if err := sal.SyncDir(r.Own.Dir); err != nil {
			return err
		}
	}
	info, err := os.Stat(pathOf(r))
	if err != nil {
		return err
	}
	r.Own.Phase, r.Own.Bytes = ready, info.Size()
	r.Generation++
	return s.records.Put(r)
}

// has reports whether another image of the project has the content already, in an unchanged file.
func (s store) has(c content) (bool, error) {
	records, _, err := s.records.List()
	if err != nil {
		return false, err
	}
	for _, r := range records {
		other := contentOf(r)
		if (r.Own.Phase != ready && r.Own.Phase != leaving) || other.project != c.project || other.file() != c.file() {
			continue
		}
		if drift, err := drifted(r); err != nil || len(drift) == 0 {
			return err == nil, err
		}
	}
	return false, nil
}

// release removes the files of an image, unless another image needs them. If the project is fetching the same content
// for another image, the unfinished files are removed later.
func (s store) release(ctx context.Context, r *record) error {
	c := contentOf(r)
	err := s.collectIdle(r.Own.Dir, c.stem())
	if err == nil {
		var unlock func()
		if unlock, err = s.locks.Take(ctx, c.sha256); err == nil {
			err = s.collect(r.Own.Dir, c.sha256)
			unlock()
		}
	}
	return sal.HostError("remove the file of "+r.Resource.String(), err)
}

// releaseLost removes all files that no image needs, because the damaged record does not name its own file.
func (s store) releaseLost(ctx context.Context, _ *record) error {
	dir, err := s.find(ctx)
	if err != nil || dir == "" {
		return err
	}
	return s.sweep(dir)
}

// removeDrifted removes the changed file of an image, unless another project has replaced it with a valid one
// meanwhile.
func (s store) removeDrifted(ctx context.Context, r *record) error {
	unlock, err := s.locks.Take(ctx, contentOf(r).sha256)
	if err != nil {
		return err
	}
	defer unlock()
	if drift, err := drifted(r); err != nil || len(drift) == 0 {
		return err
	}
	s.step("remove the file")
	if err := os.Remove(pathOf(r)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return sal.HostError("remove the file of "+r.Resource.String(), err)
	}
	return nil
}

// sweep removes every file that no image needs, except files in use.
func (s store) sweep(dir string) error {
	unneeded, _, err := s.unneeded(dir)
	if err != nil {
		return err
	}
	swept := map[string]bool{}
	for _, name := range unneeded {
		stem := stemOf(name)
		if swept[stem] {
			continue
		}
		swept[stem] = true
		if err := s.collectIdle(dir, stem); err != nil {
			return sal.HostError("remove unused images", err)
		}
	}
	return nil
}

// collectIdle locks a stem and calls collect. It skips a stem that is in use.
func (s store) collectIdle(dir, stem string) error {
	unlock, ok := s.locks.Try(stem)
	if !ok {
		return nil
	}
	defer unlock()
	return s.collect(dir, stem)
}

// collect removes the files of a stem that no image needs. The caller holds the lock of the stem.
func (s store) collect(dir, stem string) error {
	unneeded, _, err := s.unneeded(dir)
	if err != nil {
		return err
	}
	removed := false
	for _, name := range unneeded {
		if stemOf(name) != stem {
			continue
		}
		s.step("remove the file")
		if err := os.Remove(filepath.Join(dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		removed = true
	}
	if !removed {
		return nil
	}
	return sal.SyncDir(dir)
}

// unneeded returns the files that no image needs, and the damaged records. If a record is damaged, it returns no files,
// because that record may need any file.
func (s store) unneeded(dir string) (names []string, damaged []sal.Damaged, err error) {
	names, err = files(dir) // before the records, because a record is written before its file
	if err != nil {
		return nil, nil, err
	}
	needed, damaged, err := s.needed()
	if err != nil || len(damaged) > 0 {
		return nil, damaged, err
	}
	return slices.DeleteFunc(names, func(name string) bool { return len(needed[name]) > 0 }), nil, nil
}

// needed returns the projects that need each file, and the damaged records. It omits images that are being deleted. An
// image that is being fetched needs only its unfinished files: the complete file may belong to another project.
func (s store) needed() (needed map[string]map[writ.ProjectID]bool, damaged []sal.Damaged, err error) {
	records, damaged, err := s.records.List()
	if err != nil {
		return nil, nil, err
	}
	needed = map[string]map[writ.ProjectID]bool{}
	for _, r := range records {
		var names []string
		switch c := contentOf(r); r.Own.Phase {
		case ready, leaving:
			names = []string{c.file()}
		case fetching:
			part, tag, made := c.begun()
			names = []string{part, tag, made}
		}
		for _, name := range names {
			if needed[name] == nil {
				needed[name] = map[writ.ProjectID]bool{}
			}
			needed[name][r.Resource.Project] = true
		}
	}
	return needed, damaged, nil
}

// files returns the names of all files in the tree.
func files(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, sal.HostError("list the images", err)
	}
	var all []string
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return all, nil
}
