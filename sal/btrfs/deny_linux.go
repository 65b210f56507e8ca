package btrfs

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"

	"writ/sal"
)

// Attribute name, version and tags of the kernel's POSIX access control lists.
const (
	aclAttribute = "system.posix_acl_access"
	aclVersion   = 2

	aclOwner      = 0x01
	aclOwnerGroup = 0x04
	aclGroup      = 0x08
	aclMask       = 0x10
	aclOther      = 0x20

	noID = ^uint32(0)
)

// deny denies the group s.denied all access to a tree. This is necessary because the members of the group may traverse
// the directory of all trees, where some of them own a tree. The mode of a container's tree permits access to all
// users. The owner and the owning group of the tree keep the rights of the mode.
func (s subvolumes) deny(tree string) error {
	if s.denied == 0 {
		return nil
	}
	f, err := os.OpenFile(tree, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	want := accessList(info.Mode(), s.denied)
	have := make([]byte, len(want)+1)
	if n, err := unix.Fgetxattr(int(f.Fd()), aclAttribute, have); err == nil && bytes.Equal(have[:n], want) {
		return nil
	}
	s.step("close the tree to other users")
	return unix.Fsetxattr(int(f.Fd()), aclAttribute, want, 0)
}

// accessList returns an access list with the rights of a mode, and without rights for a group. chmod changes the mask
// of an access list, not the entry of the owning group. So the mask holds the rights of the owning group, and the entry
// of that group always permits reading and traversal.
func accessList(mode fs.FileMode, group uint32) []byte {
	perm := uint16(mode.Perm())
	list := binary.LittleEndian.AppendUint32(nil, aclVersion)
	for _, e := range []struct {
		tag, perm uint16
		id        uint32
	}{
		{aclOwner, perm >> 6 & 7, noID}, {aclOwnerGroup, 5, noID}, {aclGroup, 0, group}, {aclMask, perm >> 3 & 7, noID},
		{aclOther, perm & 7, noID},
	} {
		list = binary.LittleEndian.AppendUint16(list, e.tag)
		list = binary.LittleEndian.AppendUint16(list, e.perm)
		list = binary.LittleEndian.AppendUint32(list, e.id)
	}
	return list
}

// denyAll applies deny to all trees, because earlier versions of this program made trees without it.
func (s subvolumes) denyAll(at layout) error {
	if s.denied == 0 {
		return nil
	}
	names, err := sal.FileNames(at.Path(""))
	for _, name := range names {
		if one := s.deny(at.Path(name)); !errors.Is(one, fs.ErrNotExist) && !errors.Is(one, unix.ENOTDIR) {
			err = errors.Join(err, one)
		}
	}
	return err
}
