//go:build cgo

package btrfs

import (
	"encoding/binary"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"unsafe"

	"github.com/containerd/btrfs/v2"

	"writ/sal/needs"
)

// snapshotSubvolume creates a snapshot. With full quotas, the snapshot joins the project quota group of its source.
// Without this group, the kernel would mark the numbers of all groups as inconsistent, and would enforce no limit until
// the next rescan.
func snapshotSubvolume(to, from string, readOnly bool) error {
	parents, err := inherited(from)
	if err != nil {
		return err
	}
	if len(parents) == 0 {
		return btrfs.SubvolSnapshot(to, from, readOnly)
	}
	return snapshotIn(to, from, readOnly, parents[0])
}

// inherited returns the quota groups, at most one, that a snapshot of a subvolume has to join. It returns none for
// simple quotas, which charge a snapshot only for new blocks. It also returns none before Linux 6.9, where joining a
// group made the numbers inconsistent.
func inherited(subvolume string) ([]uint64, error) {
	simple, err := simpleQuota(subvolume)
	if err != nil || simple || !needs.AtLeast(kernelRelease(), "6.9") {
		return nil, err
	}
	id, err := subvolumeID(subvolume)
	if err != nil {
		return nil, err
	}
	parents, err := parentsOf(subvolume, group(0, id))
	if len(parents) > 1 { // created by another program; the kernel has to rescan in any case
		return nil, err
	}
	return parents, err
}

// quotaTree is the number of the kernel's tree of quotas, and groupRelation is the type of its items for members and
// parents of groups.
const (
	quotaTree     = 8
	groupRelation = 246
)

// parentsOf returns up to 50 quota groups that a group belongs to. dir is any directory of the file system.
func parentsOf(dir string, group uint64) (parents []uint64, err error) {
	args := struct {
		searchKey
		found [4096 - unsafe.Sizeof(searchKey{})]byte
	}{searchKey: searchKey{
		tree: quotaTree, minObject: group, maxObject: group, maxOffset: math.MaxUint64, maxTransaction: math.MaxUint64,
		minType: groupRelation, maxType: groupRelation, items: 50,
	}}
	if err := ioctl(dir, 3, 17, &args); err != nil {
		return nil, os.NewSyscallError("search for quota groups", err)
	}
	const header = 32 // transaction, object, offset, type, length; these items are empty
	for i := range int(args.items) {
		parents = append(parents, binary.NativeEndian.Uint64(args.found[i*header+16:]))
	}
	return parents, nil
}

// snapshotIn creates a snapshot that belongs to a quota group.
func snapshotIn(to, from string, readOnly bool, group uint64) error {
	const flagReadOnly, flagInherit = 1 << 1, 1 << 2
	inherit := struct {
		flags, groups, _, _ uint64
		_                   [5]uint64 // limit
		group               uint64
	}{groups: 1, group: group}
	args := struct {
		source             int64
		transaction, flags uint64
		size               uint64
		inherit            unsafe.Pointer
		_                  [2]uint64
		name               [4040]byte
	}{flags: flagInherit, size: uint64(unsafe.Sizeof(inherit)), inherit: unsafe.Pointer(&inherit)}
	if readOnly {
		args.flags |= flagReadOnly
	}
	copy(args.name[:len(args.name)-1], filepath.Base(to))
	err := onDir(from, func(source uintptr) error {
		args.source = int64(source)
		return onDir(filepath.Dir(to), func(dir uintptr) error { return call(dir, 1, 23, &args) })
	})
	runtime.KeepAlive(&inherit)
	if err != nil {
		return &fs.PathError{Op: "snapshot the subvolume to", Path: to, Err: err}
	}
	return nil
}
