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

// tree is the directory of the images, "" if no image was ever fetched.
func (d *Driver) tree(ctx context.Context) (string, error) {
	all, err := d.Trees.List(ctx)
	if err != nil || !slices.Contains(all, treeName) {
		return "", err
	}
	return d.makeTree(ctx)
}

// makeTree makes the directory of the images, for one at a time.
func (d *Driver) makeTree(ctx context.Context) (string, error) {
	done, err := d.turn(ctx, treeName)
	if err != nil {
		return "", err
	}
	defer done()
	return d.Trees.Make(ctx, treeName, sal.Bound{})
}

// files are the names of all files in the tree.
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

// file is the name of a whole image in the tree.
func (c content) file() string { return c.sha256 + "." + c.format }

// stem begins the names of what a project has of a content before it is whole.
func (c content) stem() string { return c.sha256 + "." + short(string(c.project)) }

// begun are the names of what there may be of it before it is whole: what was fetched, what is known of that, and what is made of it.
func (c content) begun() (part, tag, made string) {
	begin := c.stem() + "." + short(c.url) + "."
	return begin + "part", begin + "tag", begin + "raw.part"
}

// shortLen is how many hex digits stand for a project or URL in the name of a file.
const shortLen = 24

func short(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])[:shortLen]
}

// stemOf is what everybody whose file it is takes turns about: the digest of a whole image, or the stem of what one project has begun.
func stemOf(name string) string {
	fields := strings.SplitN(name, ".", 3)
	if len(fields) == 3 && len(fields[1]) == shortLen {
		return fields[0] + "." + fields[1]
	}
	return fields[0]
}

// wishes are the files that images want.
type wishes struct {
	files   map[string]map[writ.ProjectID]bool // by name, with the projects
	damaged []sal.Damaged                      // records that may want any file
}

// has reports whether an image wants a file, or may.
func (w wishes) has(name string) bool { return len(w.files[name]) > 0 || len(w.damaged) > 0 }

func (w wishes) add(name string, project writ.ProjectID) {
	if w.files[name] == nil {
		w.files[name] = map[writ.ProjectID]bool{}
	}
	w.files[name][project] = true
}

// wanted are the files of every image that is not being deleted. One that is being fetched wants what it has begun and nothing else: the
// content may be there for another project.
func (d *Driver) wanted() (wishes, error) {
	records, damaged, err := d.records().List()
	if err != nil {
		return wishes{}, err
	}
	w := wishes{files: map[string]map[writ.ProjectID]bool{}, damaged: damaged}
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

// has reports whether a project has a content already, because another of its images is made of it, whose file is as it was fetched.
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

// collect removes the files of a stem that no image wants. The caller has its turn.
func (d *Driver) collect(dir, stem string) error {
	files, err := files(dir) // before the records: a file comes into being after the record that wants it
	if err != nil {
		return err
	}
	wanted, err := d.wanted()
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

// collectWith collects what an image leaves behind. What its project is just fetching for another one goes later.
func (d *Driver) collectWith(ctx context.Context, dir string, c content) error {
	if err := d.collectIdle(dir, c.stem()); err != nil {
		return err
	}
	done, err := d.turn(ctx, c.sha256)
	if err != nil {
		return err
	}
	defer done()
	return d.collect(dir, c.sha256)
}

// collectIdle collects a stem unless somebody works on it.
func (d *Driver) collectIdle(dir, stem string) error {
	place, done := d.placeOf(stem)
	defer done()
	select {
	case place.taken <- struct{}{}:
	default:
		return nil
	}
	defer func() { <-place.taken }()
	return d.collect(dir, stem)
}

// sweep collects every file that nobody wants, except those that somebody works on.
func (d *Driver) sweep(dir string) error {
	files, err := files(dir)
	if err != nil {
		return err
	}
	wanted, err := d.wanted()
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

// place is where whoever works on a stem, or on the tree, puts something until the work is done.
type place struct {
	taken chan struct{} // has room for one
	users int           // who have it, or wait for it
}

// placeOf returns the place of a stem. Whoever asked for it calls done at the end, after taking out what was put there: scripts choose stems,
// so that nothing is kept of one that nobody works on.
func (d *Driver) placeOf(stem string) (p *place, done func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.places == nil {
		d.places = map[string]*place{}
	}
	if d.places[stem] == nil {
		d.places[stem] = &place{taken: make(chan struct{}, 1)}
	}
	p = d.places[stem]
	p.users++
	return p, func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		if p.users--; p.users == 0 {
			delete(d.places, stem)
		}
	}
}

// turn waits until nobody else works on a stem, or on the tree. A digest is held for moments only: all projects share it.
func (d *Driver) turn(ctx context.Context, stem string) (done func(), err error) {
	place, gone := d.placeOf(stem)
	select {
	case place.taken <- struct{}{}:
		return func() { <-place.taken; gone() }, nil
	case <-ctx.Done():
		gone()
		return nil, ctx.Err()
	}
}
