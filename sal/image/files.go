package image

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"writ"
	"writ/sal"
)

// tree returns the directory of the images, or "" if no image was ever fetched.
func (d *Driver) tree(ctx context.Context) (string, error) {
	all, err := d.Trees.List(ctx)
	if err != nil || !slices.Contains(all, treeName) {
		return "", err
	}
	return d.makeTree(ctx)
}

// makeTree creates the directory of the images. Concurrent calls wait for each other.
func (d *Driver) makeTree(ctx context.Context) (string, error) {
	done, err := d.lock(ctx, treeName)
	if err != nil {
		return "", err
	}
	defer done()
	return d.Trees.Make(ctx, treeName, sal.Bound{})
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

// file returns the name of a complete image in the tree.
func (c content) file() string { return c.sha256 + "." + c.format }

// stem returns the common prefix of the files that a project has of a content before it is complete.
func (c content) stem() string { return c.sha256 + "." + short(string(c.project)) }

// begun returns the names of the unfinished files: the fetched bytes, their source, and the converted form.
func (c content) begun() (part, tag, made string) {
	begin := c.stem() + "." + short(c.url) + "."
	return begin + "part", begin + "tag", begin + "raw.part"
}

// shortLen is the number of hex digits that represent a project or URL in a file name.
const shortLen = 24

func short(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])[:shortLen]
}

// stemOf returns the lock name of a file: the digest of a complete image, or the stem of an unfinished one.
func stemOf(name string) string {
	fields := strings.SplitN(name, ".", 3)
	if len(fields) == 3 && len(fields[1]) == shortLen {
		return fields[0] + "." + fields[1]
	}
	return fields[0]
}

// neededFiles holds the files that images need.
type neededFiles struct {
	files   map[string]map[writ.ProjectID]bool // projects by file name
	damaged []sal.Damaged                      // records that may need any file
}

// has reports whether an image needs a file, or may need it.
func (w neededFiles) has(name string) bool { return len(w.files[name]) > 0 || len(w.damaged) > 0 }

func (w neededFiles) add(name string, project writ.ProjectID) {
	if w.files[name] == nil {
		w.files[name] = map[writ.ProjectID]bool{}
	}
	w.files[name][project] = true
}

// loadNeeded returns the files of every image that is not being deleted. An image that is being fetched needs only its
// unfinished files: the complete file may belong to another project.
func (d *Driver) loadNeeded() (neededFiles, error) {
	records, damaged, err := d.records().List()
	if err != nil {
		return neededFiles{}, err
	}
	w := neededFiles{files: map[string]map[writ.ProjectID]bool{}, damaged: damaged}
	for _, r := range records {
		switch c := contentOf(r); r.Own.Phase {
		case ready, leaving:
			w.add(c.file(), c.project)
		case fetching:
			part, tag, made := c.begun()
			for _, name := range []string{part, tag, made} {
				w.add(name, c.project)
			}
		}
	}
	return w, nil
}

// has reports whether another image of the project has the content already, in an unchanged file.
func (d *Driver) has(c content) (bool, error) {
	records, _, err := d.records().List()
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

// collect removes the files of a stem that no image needs. The caller holds the lock of the stem.
func (d *Driver) collect(dir, stem string) error {
	files, err := files(dir) // before the records, because a record is written before its file
	if err != nil {
		return err
	}
	wanted, err := d.loadNeeded()
	if err != nil {
		return err
	}
	removed := false
	for _, name := range files {
		if stemOf(name) != stem || wanted.has(name) {
			continue
		}
		d.step("remove the file")
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

// collectWith removes the files that an image leaves behind. Unfinished files that the project is fetching for another
// image are removed later.
func (d *Driver) collectWith(ctx context.Context, dir string, c content) error {
	if err := d.collectIdle(dir, c.stem()); err != nil {
		return err
	}
	done, err := d.lock(ctx, c.sha256)
	if err != nil {
		return err
	}
	defer done()
	return d.collect(dir, c.sha256)
}

// collectIdle is collect for a stem that may be in use: it then returns at once.
func (d *Driver) collectIdle(dir, stem string) error {
	stemMutex, done := d.stemLock(stem)
	defer done()
	select {
	case stemMutex.taken <- struct{}{}:
	default:
		return nil
	}
	defer func() { <-stemMutex.taken }()
	return d.collect(dir, stem)
}

// sweep removes every file that no image needs, except files in use.
func (d *Driver) sweep(dir string) error {
	files, err := files(dir)
	if err != nil {
		return err
	}
	wanted, err := d.loadNeeded()
	if err != nil {
		return err
	}
	swept := map[string]bool{}
	for _, name := range files {
		stem := stemOf(name)
		if wanted.has(name) || swept[stem] {
			continue
		}
		swept[stem] = true
		if err := d.collectIdle(dir, stem); err != nil {
			return sal.HostError("remove unused images", err)
		}
	}
	return nil
}

// stemMutex is the lock of a stem or of the tree.
type stemMutex struct { // holds one element while locked
	taken chan struct{} // has room for one
	users int           // holders and waiters
}

// stemLock returns the lock of a stem. The caller calls done after unlocking. A lock without users is deleted, because
// scripts choose the stems.
func (d *Driver) stemLock(stem string) (p *stemMutex, done func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.stemMutexes == nil {
		d.stemMutexes = map[string]*stemMutex{}
	}
	if d.stemMutexes[stem] == nil {
		d.stemMutexes[stem] = &stemMutex{taken: make(chan struct{}, 1)}
	}
	p = d.stemMutexes[stem]
	p.users++
	return p, func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		if p.users--; p.users == 0 {
			delete(d.stemMutexes, stem)
		}
	}
}

// lock locks a stem or the tree. A digest is locked only for moments, because all projects share it.
func (d *Driver) lock(ctx context.Context, stem string) (done func(), err error) {
	stemMutex, gone := d.stemLock(stem)
	select {
	case stemMutex.taken <- struct{}{}:
		return func() { <-stemMutex.taken; gone() }, nil
	case <-ctx.Done():
		gone()
		return nil, ctx.Err()
	}
}
