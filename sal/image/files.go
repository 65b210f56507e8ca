package image

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

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

// wishes are what images name.
type wishes struct {
	digests map[string]bool
	damaged []sal.Damaged // records that may name any digest
}

// has reports whether an image names a digest, or may.
func (w wishes) has(digest string) bool { return w.digests[digest] || len(w.damaged) > 0 }

// wanted are the digests that an image names which is not being deleted.
func (d *Driver) wanted() (wishes, error) {
	records, damaged, err := d.records().List()
	if err != nil {
		return wishes{}, err
	}
	w := wishes{digests: map[string]bool{}, damaged: damaged}
	for _, r := range records {
		if r.Own.Phase != deleting {
			w.digests[contentOf(r).sha256] = true
		}
	}
	return w, nil
}

// collect removes the files of a digest that no image names. The caller has its turn.
func (d *Driver) collect(dir, digest string) error {
	files, err := files(dir) // before the records: a file comes into being after the record that names it
	if err != nil {
		return err
	}
	wanted, err := d.wanted()
	if err != nil || wanted.has(digest) {
		return err
	}
	removed := false
	for _, name := range files {
		if !strings.HasPrefix(name, digest+".") {
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

// sweep collects every digest that nobody names, except those that somebody works on.
func (d *Driver) sweep(dir string) error {
	files, err := files(dir)
	if err != nil {
		return err
	}
	wanted, err := d.wanted()
	if err != nil {
		return err
	}
	for _, name := range files {
		digest, _, _ := strings.Cut(name, ".")
		if wanted.has(digest) {
			continue
		}
		wanted.digests[digest] = true // once
		place := d.placeOf(digest)
		select {
		case place <- struct{}{}:
		default:
			continue
		}
		err := d.collect(dir, digest)
		<-place
		if err != nil {
			return sal.HostError("remove images that nobody names", err)
		}
	}
	return nil
}

// placeOf is where whoever works on a digest, or on the tree, puts something until the work is done.
func (d *Driver) placeOf(digest string) chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.places == nil {
		d.places = map[string]chan struct{}{}
	}
	if d.places[digest] == nil {
		d.places[digest] = make(chan struct{}, 1)
	}
	return d.places[digest]
}

// turn waits until nobody else works on a digest, or on the tree.
func (d *Driver) turn(ctx context.Context, digest string) (done func(), err error) {
	place := d.placeOf(digest)
	select {
	case place <- struct{}{}:
		return func() { <-place }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
