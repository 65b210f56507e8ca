package confine

import (
	"os"
	"time"
)

// Sandbox is for a program that works on what a stranger wrote, and that may be taken over by it. The process opens the files that it was
// given, and reads the libraries of the system. It has no network, no capability and no other process, gets a processor after all others, and
// ends when it takes too much.
type Sandbox struct {
	// Files are open files that the process gets as well and may open anew by /dev/fd: to read, and to write if they are open for that.
	Files []File
	// Read are files, and directories with all below them, that it may read and execute besides its program and the libraries of the system.
	Read   []string
	Limits Limits
}

// File is an open file of a sandbox.
type File struct {
	*os.File
	Write bool
}

// Limits are what one process may take. What is zero is not bounded.
type Limits struct {
	Memory   uint64        // bytes that it can write to
	FileSize uint64        // bytes, of any file
	CPU      time.Duration // of all its threads, rounded up to whole seconds
	Files    uint64        // open at a time
	// Processes are how many its user may have, threads counted. It bounds nothing without a user of its own.
	Processes uint64
}

// libraries are where systems keep what programs are linked with. What is not there is left out.
var libraries = []string{
	"/lib", "/lib32", "/lib64", "/usr/lib", "/usr/lib32", "/usr/lib64", "/usr/local/lib", "/nix/store", "/gnu/store", "/etc/ld.so.cache",
}
