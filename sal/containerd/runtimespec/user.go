package runtimespec

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/containerd/containerd/v2/pkg/oci"
	"github.com/moby/sys/user"
	specs "github.com/opencontainers/runtime-spec/specs-go"

	"writ"
	"writ/internal/userns"
)

// userOfImage finds the user of an image, given as "user" or "user:group", in the files of its layer. A number needs no
// entry there. An empty user means root; without a group, the user's group is used. It rejects an image if the runtime
// could not read its /etc/passwd or /etc/group.
func userOfImage(layer fs.FS, named string) (specs.User, error) {
	account, gid, err := accountOf(layer, named)
	if err != nil {
		return specs.User{}, err
	}
	more, err := groupsOf(layer, account.Name)
	if err != nil {
		return specs.User{}, err
	}
	if !slices.Contains(more, gid) {
		more = slices.Insert(more, 0, gid)
	}
	return specs.User{UID: uint32(account.Uid), GID: gid, AdditionalGids: more}, nil
}

// accountOf finds an account and its group; a group after a colon overrides the account's own.
func accountOf(layer fs.FS, named string) (account user.User, gid uint32, err error) {
	name, group, _ := strings.Cut(named, ":")
	if name == "" {
		name = "0"
	}
	number, isNumber, err := idOf(name)
	if err != nil {
		return account, 0, err
	}
	account, err = oci.UserFromFS(layer, first(func(a user.User) bool {
		if isNumber {
			return a.Uid == number
		}
		return a.Name == name
	}))
	switch {
	case unlisted(err) && number == 0 && isNumber:
		account = user.User{Name: "root"}
	case unlisted(err) && isNumber:
		account = user.User{Uid: number}
	case unlisted(err):
		return account, 0, fmt.Errorf("its /etc/passwd has no %s", name)
	case err != nil:
		return account, 0, err
	}
	if tooLarge(account.Uid) || tooLarge(account.Gid) {
		return account, 0, fmt.Errorf("/etc/passwd has %s with the user %d and the group %d", account.Name, account.Uid,
			account.Gid)
	}
	if group == "" {
		return account, uint32(account.Gid), nil
	}
	if number, isNumber, err = idOf(group); err != nil || isNumber {
		return account, uint32(number), err
	}
	gid, err = oci.GIDFromFS(layer, first(func(g user.Group) bool { return g.Name == group }))
	if unlisted(err) {
		err = fmt.Errorf("its /etc/group has no %s", group)
	}
	return account, gid, err
}

// first returns a filter for the first match only. The parsers store all matches, and an image may have a million.
func first[T any](matches func(T) bool) func(T) bool {
	found := false
	return func(v T) bool {
		if found || !matches(v) {
			return false
		}
		found = true
		return true
	}
}

// idOf parses the number of a user or group. It rejects numbers that are too large for the runtime.
func idOf(text string) (id int, isNumber bool, err error) {
	n, err := strconv.ParseInt(text, 10, 64)
	switch {
	case errors.Is(err, strconv.ErrSyntax):
		return 0, false, nil
	case err != nil || tooLarge(int(n)):
		return 0, false, fmt.Errorf("%s is not a valid number of a user or group", text)
	}
	return int(n), true, nil
}

// tooLarge reports whether the runtime rejects a number of a user or group.
func tooLarge(id int) bool { return id < 0 || id > math.MaxInt32 }

// unlisted reports whether an error means that an image does not list a user or group.
func unlisted(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, oci.ErrNoUsersFound) || errors.Is(err, oci.ErrNoGroupsFound)
}

// badUser returns the error about the user of an image.
func badUser(named string, err error) error {
	return writ.Errorf(writ.CodeArgumentsInvalid, "the image names the user %q, whose programs cannot run: %w", named,
		err).
		WithHint("build the image with a USER that its /etc/passwd lists, or with a number")
}

// badOverride returns the error about the user that the arguments name.
func badOverride(named string, err error) error {
	return writ.Errorf(writ.CodeArgumentsInvalid, "programs cannot run as the user %q: %w", named, err).
		WithHint("use a user that /etc/passwd of the image lists, or a number")
}

// mapped rejects a user outside the user namespace of a container.
func mapped(u specs.User) error {
	return tooLargeForOwn(append([]uint32{u.UID, u.GID}, u.AdditionalGids...)...)
}

// tooLargeForOwn returns an error if a number is outside the user namespace of a container.
func tooLargeForOwn(ids ...uint32) error {
	for _, id := range ids {
		if id >= userns.Many {
			return fmt.Errorf("a container has the users and groups 0 to %d, and not %d", userns.Many-1, id)
		}
	}
	return nil
}

// regularFiles opens regular files only. Opening a FIFO blocks, and opening a device affects the host.
type regularFiles struct{ fs.FS }

func (r regularFiles) Open(name string) (fs.File, error) {
	info, err := fs.Stat(r.FS, name)
	if err == nil && !info.Mode().IsRegular() {
		err = &fs.PathError{Op: "open", Path: name, Err: errors.New("it is not a regular file")}
	}
	if err != nil {
		return nil, err
	}
	return r.FS.Open(name)
}

// ReadLink and Lstat let the caller follow absolute links below the root.
func (r regularFiles) ReadLink(name string) (string, error)   { return fs.ReadLink(r.FS, name) }
func (r regularFiles) Lstat(name string) (fs.FileInfo, error) { return fs.Lstat(r.FS, name) }

// maxGroups is Linux' limit of the supplementary groups of a process (NGROUPS_MAX).
const maxGroups = 65_536

// groupsOf returns the numbers of the groups that list an account as a member. It returns an error if these are more
// groups than Linux allows.
func groupsOf(layer fs.FS, account string) (all []uint32, err error) {
	_, err = oci.GIDFromFS(layer, func(g user.Group) bool {
		if g.Name != account && len(all) <= maxGroups && slices.Contains(g.List, account) {
			all = append(all, uint32(g.Gid))
		}
		return false // continue with the next group
	})
	if unlisted(err) {
		err = nil
	}
	if err == nil && len(all) >= maxGroups { // the user's own group is one more
		err = fmt.Errorf("/etc/group lists it in %d groups or more, and Linux allows fewer", maxGroups)
	}
	return all, err
}
