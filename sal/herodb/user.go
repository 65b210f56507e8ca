package herodb

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"writ/sal"
)

// user returns the user of the database: the current one if it is in Accounts, otherwise a new one, or 0 without
// Accounts.
func (j *job) user(has uint32) (uint32, error) {
	if !j.Accounts.Used() {
		return 0, nil
	}
	if j.Accounts.Has(has) {
		return has, nil
	}
	user, err := j.users.Choose(j.Accounts, j.Resource.HostName(), func() (map[uint32]string, error) {
		records, _, err := j.records().List()
		used := map[uint32]string{}
		for _, r := range records {
			used[r.Own.User] = r.Resource.HostName()
		}
		return used, err
	}, filepath.Join(j.Dir, "databases"))
	return user, sal.HostError("find a user for "+j.Resource.String(), err)
}

// handOver gives the user of a database ownership of the data, and read access to its other files. No process may use
// the files meanwhile. The record with a new user is written after the files of the previous user are reclaimed and
// before the new user gets anything, because a user ID that is in no record may be given to another database.
func (j *job) handOver(p program, r *sal.Record[own], in *instance) error {
	user, err := j.user(r.Own.User)
	if err != nil {
		return err
	}
	if user != r.Own.User {
		if err := j.closeTree(in.tree); err != nil {
			return sal.HostError("take "+j.dir+" back", err)
		}
		r.Own.User = user
		if err := j.records().Put(r); err != nil {
			return err
		}
	}
	in.own.User = user
	if user == 0 {
		return sal.HostError("take "+j.dir+" back", j.closeTree(in.tree))
	}
	j.step("hand the data over")
	for _, dir := range []string{filepath.Dir(j.dir), filepath.Dir(in.tree)} {
		if err == nil {
			err = j.Accounts.Lead(dir)
		}
	}
	if err == nil {
		err = sal.HandPath(j.dir, user)
	}
	for _, name := range []string{"server.conf", "users.acl"} {
		if _, there := os.Lstat(j.in(name)); err == nil && there == nil {
			err = sal.HandFile(j.in(name), 0, user, 0o640)
		}
	}
	if err == nil && filepath.Dir(filepath.Dir(p.path)) == filepath.Join(j.Dir, "engines") { // a copy
		err = errors.Join(j.Accounts.Lead(filepath.Dir(p.path)), sal.HandFile(p.path, 0, j.Accounts.SharedGroup, 0o750))
	}
	if err == nil {
		err = j.runDir(user)
	}
	if err == nil {
		err = sal.HandTree(in.tree, user)
	}
	return sal.HostError("hand "+j.Resource.String()+" over to its user", err)
}

// runDir recreates the directory for the sockets of engines, so that no old files are in it.
func (j *job) runDir(user uint32) error {
	dir := j.in("run")
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	return os.Lchown(dir, int(user), int(user))
}

// closeTree takes back the directory of a database and its data from their users. It does not change files below them:
// the driver can use files of any owner.
func (j *job) closeTree(tree string) error {
	if err := os.Mkdir(j.in("run"), 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return errors.Join(sal.ReclaimPath(j.dir, j.step), sal.ReclaimPath(tree, j.step))
}
