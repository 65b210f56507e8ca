package confine

import (
	"os"
	"time"
)

// Sandbox is for a program that processes untrusted input and may be compromised by it. The process can open only its
// given files and the libraries of the system. It has no network, no capabilities and no access to other processes. It
// has the lowest CPU priority, and is ended when it exceeds its limits.
type Sandbox struct {
	// Files are open files that the process inherits. It may reopen them by /dev/fd for reading, and for writing if
	// Write is set.
	Files []File
	// Read are files and directory trees that it may read and execute, in addition to its program and the libraries of
	// the system.
	Read   []string
	Limits Limits
}

// File is an open file of a sandbox.
type File struct {
	*os.File
	Write bool
}

// Limits are the resource limits of a process. Zero means unlimited.
type Limits struct {
	Memory   uint64        // bytes of writable memory
	FileSize uint64        // bytes per file
	CPU      time.Duration // of all threads, rounded up to whole seconds
	Files    uint64        // open files
	// Processes limits the processes and threads of its user. It has no effect without a separate user.
	Processes uint64
}

// libraries are the library directories of common Linux distributions. Missing directories are ignored.
var libraries = []string{
	"/lib", "/lib32", "/lib64", "/usr/lib", "/usr/lib32", "/usr/lib64", "/usr/local/lib", "/nix/store", "/gnu/store",
	"/etc/ld.so.cache",
}
