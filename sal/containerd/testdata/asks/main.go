// Command asks makes ioctl requests for a directory on btrfs and prints the results: one line for each, with its name
// and error number.
package main

import (
	"fmt"
	"os"
	"syscall"
	"unsafe"
)

func main() {
	dir := os.Args[1]
	top, err := os.Open(dir)
	if err != nil {
		panic(err)
	}
	if err := os.WriteFile(dir+"/file", make([]byte, 4096), 0o600); err != nil {
		panic(err)
	}
	file, err := os.Open(dir + "/file")
	if err != nil {
		panic(err)
	}
	copied, err := os.Create(dir + "/copied")
	if err != nil {
		panic(err)
	}
	var named, flagged [4096]byte // the two forms of a request for a subvolume
	*(*int64)(unsafe.Pointer(&named)) = int64(top.Fd())
	copy(named[8:], "one")
	*(*int64)(unsafe.Pointer(&flagged)) = int64(top.Fd())
	copy(flagged[56:], "two")
	var number uint64
	for _, ask := range []struct {
		name    string
		file    *os.File
		request uintptr
		arg     uintptr
	}{
		{"SNAP_CREATE", top, 0x50009401, uintptr(unsafe.Pointer(&named))},
		{"SUBVOL_CREATE", top, 0x5000940e, uintptr(unsafe.Pointer(&named))},
		{"SUBVOL_CREATE in 64 bits", top, 1<<32 | 0x5000940e, uintptr(unsafe.Pointer(&named))},
		{"SNAP_CREATE_V2", top, 0x50009417, uintptr(unsafe.Pointer(&flagged))},
		{"SUBVOL_CREATE_V2", top, 0x50009418, uintptr(unsafe.Pointer(&flagged))},
		{"SUBVOL_SETFLAGS", top, 0x4008941a, uintptr(unsafe.Pointer(&number))},
		{"FICLONE", copied, 0x40049409, file.Fd()},
		{"FICLONE in 64 bits", copied, 1<<32 | 0x40049409, file.Fd()},
		{"FS_IOC_GETFLAGS", file, 0x80086601, uintptr(unsafe.Pointer(&number))},
		{"FIONREAD", file, 0x541b, uintptr(unsafe.Pointer(&number))},
	} {
		_, _, errno := syscall.Syscall(syscall.SYS_IOCTL, ask.file.Fd(), ask.request, ask.arg)
		fmt.Printf("%s: %d\n", ask.name, int(errno))
	}
}
