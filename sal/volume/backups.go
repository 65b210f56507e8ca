package volume

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"writ"
	"writ/sal"
)

// backups is the directory with the archives of a project's volumes, including deleted volumes.
type backups struct {
	dir     string
	project writ.ProjectID
	coming  *reservations
	step    func(name string)
}

func newBackups(d *Driver, project writ.ProjectID) backups {
	return backups{filepath.Join(d.Dir, "backups", string(project)), project, &d.coming, d.step}
}

// path returns the path of an archive. It is safe: names of backups are resource names, and projects are UUIDs.
func (b backups) path(name string) string { return filepath.Join(b.dir, name+archiveExtension) }

const archiveExtension = ".tar"

// files returns the complete archives.
func (b backups) files() (all []fs.FileInfo, err error) {
	entries, err := os.ReadDir(b.dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, e := range entries {
		info, err := e.Info()
		if err == nil && info.Mode().IsRegular() && filepath.Ext(e.Name()) == archiveExtension {
			all = append(all, info)
		}
	}
	return all, nil
}

// usage returns the size and number of all archives, including archives that are being written.
func (b backups) usage() (bytes int64, count int, err error) {
	files, err := b.files()
	if err != nil {
		return 0, 0, sal.HostError("add up the archives of a project", err)
	}
	bytes, count = b.coming.of(b.project)
	for _, f := range files {
		bytes += f.Size()
	}
	return bytes, count + len(files), nil
}

// unowned returns the archives that belong to none of the volumes in records.
func (b backups) unowned(records []*record) ([]fs.FileInfo, error) {
	files, err := b.files()
	owned := ownedArchives(records, b.project)
	return slices.DeleteFunc(files, func(f fs.FileInfo) bool { return owned[archiveName(f)] }), err
}

// owner returns the record of an archive's volume, or nil. It returns DRIVER_REFUSED if a record is damaged.
func (b backups) owner(all *sal.Records[own], name string) (*record, error) {
	records, damaged, err := all.List()
	if err != nil {
		return nil, err
	}
	if len(damaged) > 0 {
		return nil, writ.Errorf(writ.CodeDriverRefused,
			"the node cannot read the record %s, which may belong to the volume with the archive %q", damaged[0].Path,
			name)
	}
	for _, r := range records {
		if r.Resource.Project == b.project &&
			slices.ContainsFunc(r.Own.Archives, func(a archive) bool { return a.Name == name }) {
			return r, nil
		}
	}
	return nil, nil
}

// remove deletes the file of an archive. It reports whether the file existed.
func (b backups) remove(name string) (removed bool, err error) {
	path := b.path(name)
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	b.step("delete the archive")
	err = os.Remove(path)
	if err == nil {
		err = sal.SyncDir(b.dir)
	}
	return true, sal.HostError(fmt.Sprintf("delete the archive %q", name), err)
}

// archiveName returns the name of an archive.
func archiveName(f fs.FileInfo) string { return strings.TrimSuffix(f.Name(), archiveExtension) }
