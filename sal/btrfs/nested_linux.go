//go:build cgo

package btrfs

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"unsafe"

	"golang.org/x/sys/unix"
)

// rootTree is the number of the kernel's tree of subvolumes, and rootRef is the type of its items for parents and
// children.
const (
	rootTree = 1
	rootRef  = 156
)

// searchKey is the range of keys to search. The kernel replaces items by the number of items that it found.
type searchKey struct {
	tree, minObject, maxObject, minOffset, maxOffset uint64
	_, maxTransaction                                uint64
	minType, maxType, items, _                       uint32
	_                                                [4]uint64
}

// nestedIn returns the subvolumes directly inside a subvolume, in order of creation. dir is any directory of the file
// system.
func nestedIn(dir string, subvolume uint64) (all []nested, err error) {
	key := searchKey{
		tree: rootTree, minObject: subvolume, maxObject: subvolume, maxOffset: math.MaxUint64,
		maxTransaction: math.MaxUint64,
		minType:        rootRef, maxType: rootRef,
	}
	for {
		args := struct {
			searchKey
			found [4096 - unsafe.Sizeof(searchKey{})]byte
		}{searchKey: key}
		args.items = math.MaxUint32
		if err := ioctl(dir, 3, 17, &args); err != nil {
			return nil, os.NewSyscallError("search for nested subvolumes", err)
		}
		if args.items == 0 {
			return all, nil
		}
		some, err := rootRefs(args.found[:], int(args.items))
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
		last := some[len(some)-1].id
		if last == math.MaxUint64 {
			return all, nil
		}
		key.minOffset = last + 1
	}
}

// rootRefs decodes the items that the kernel found. Each item has a header (transaction, object, offset, type, length),
// then the directory, a sequence number, the length of the name, and the name.
func rootRefs(text []byte, items int) (all []nested, err error) {
	const header, item = 32, 18
	malformed := errors.New("the kernel returned an invalid list of subvolumes")
	for range items {
		if len(text) < header {
			return nil, malformed
		}
		id, length := binary.NativeEndian.Uint64(text[16:]), int(binary.NativeEndian.Uint32(text[28:]))
		text = text[header:]
		if length < item || len(text) < length || int(binary.LittleEndian.Uint16(text[16:])) != length-item {
			return nil, malformed
		}
		all = append(all, nested{id: id, dir: binary.LittleEndian.Uint64(text), name: string(text[item:length])})
		text = text[length:]
	}
	return all, nil
}

// nestedPath returns the path of a nested subvolume, relative to its parent.
func nestedPath(dir string, subvolume uint64, n nested) (string, error) {
	var args struct {
		tree, object uint64
		path         [4080]byte
	}
	args.tree, args.object = subvolume, n.dir
	if err := ioctl(dir, 3, 18, &args); err != nil {
		return "", err
	}
	path, _, _ := bytes.Cut(args.path[:], []byte{0})
	return string(path) + n.name, nil
}

// deleteSubvolume removes a subvolume that contains no other subvolumes. The kernel frees its space later.
func deleteSubvolume(path string) error {
	err := onDir(filepath.Dir(path), func(dir uintptr) error { return deleteIn(dir, filepath.Base(path)) })
	if err != nil {
		return &fs.PathError{Op: "delete the subvolume", Path: path, Err: err}
	}
	return nil
}

// deleteNested removes a nested subvolume that contains no other subvolumes. It first makes a read-only parent
// writable, because entries of a read-only subvolume cannot be removed. It opens directories by number, which works at
// any depth.
func deleteNested(dir string, subvolume uint64, n nested) error {
	const readOnly = 2
	err := onNumber(dir, subvolume, subvolumeInode, func(top uintptr) error {
		var flags uint64
		err := call(top, 2, 25, &flags)
		if err != nil || flags&readOnly == 0 {
			return err
		}
		flags &^= readOnly
		return call(top, 1, 26, &flags)
	})
	if err == nil {
		err = onNumber(dir, subvolume, n.dir, func(dir uintptr) error { return deleteIn(dir, n.name) })
	}
	if err != nil {
		return fmt.Errorf("delete the nested subvolume %q: %w", n.name, err)
	}
	return nil
}

func deleteIn(dir uintptr, name string) error {
	var args struct {
		_    int64
		name [4088]byte
	}
	if copy(args.name[:len(args.name)-1], name) < len(name) {
		return unix.ENAMETOOLONG
	}
	return call(dir, 1, 15, &args)
}

// onNumber opens a directory by its inode and subvolume number and calls f with it. dir is any directory of the file
// system.
func onNumber(dir string, subvolume, inode uint64, f func(fd uintptr) error) error {
	const numbers = 0x4d // type of the handle
	handle := binary.NativeEndian.AppendUint64(nil, inode)
	handle = binary.NativeEndian.AppendUint64(handle, subvolume)
	handle = binary.NativeEndian.AppendUint32(handle, 0) // any generation
	return onDir(dir, func(at uintptr) error {
		fd, err := unix.OpenByHandleAt(int(at), unix.NewFileHandle(numbers, handle),
			unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC)
		if err != nil {
			return os.NewSyscallError("open_by_handle_at", err)
		}
		return errors.Join(f(uintptr(fd)), unix.Close(fd))
	})
}
