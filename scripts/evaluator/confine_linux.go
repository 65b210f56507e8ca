package evaluator

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/landlock-lsm/go-landlock/landlock"
	llsys "github.com/landlock-lsm/go-landlock/landlock/syscall"
	"golang.org/x/sys/unix"
)

// confine gives up what a child does not need. It is called before the first byte of a script is read, and what it sets up holds for the
// rest of the process's life: everything that confines children belongs here. It says which layers hold. A layer that the kernel does
// not have is missing; one that the kernel has and that cannot be put up is an error, as is the lack of any that every kernel has.
func confine() (Layers, error) {
	layers := Layers{{Name: LayerLimits}, {Name: LayerDescriptors}, {Name: LayerPrivileges}}
	if err := setLimits(); err != nil {
		return nil, err
	}
	if err := closeInherited(); err != nil {
		return nil, err
	}
	if err := llsys.AllThreadsPrctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return nil, fmt.Errorf("renounce new privileges: %w", err)
	}
	files, err := fence()
	if err != nil {
		return nil, err
	}
	// From here on the files of this process in /proc belong to root, and neither a debugger nor a core dump sees its memory.
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return nil, fmt.Errorf("forbid dumps: %w", err)
	}
	calls, err := filter() // the last: it forbids what all the others need
	if err != nil {
		return nil, err
	}
	return append(layers, files, calls), nil
}

// setLimits bounds what the process may take.
func setLimits() error {
	for _, limit := range []struct {
		name     string
		resource int
		value    uint64
	}{
		// Of the limits on memory this is the one that stops a process of Go cleanly; RLIMIT_AS keeps it from starting. Go takes its heap
		// in pieces of 64 MiB, so what the threads are counted for must not make the last piece too big.
		{"memory", unix.RLIMIT_DATA, maxHeap + maxOther},
		{"CPU time", unix.RLIMIT_CPU, uint64(maxLifeCPU / time.Second)},
		{"core dumps", unix.RLIMIT_CORE, 0},
		{"file sizes", unix.RLIMIT_FSIZE, 0},
		{"files", unix.RLIMIT_NOFILE, maxFiles},
	} {
		if err := unix.Setrlimit(limit.resource, &unix.Rlimit{Cur: limit.value, Max: limit.value}); err != nil {
			return fmt.Errorf("limit %s: %w", limit.name, err)
		}
	}
	return nil
}

// closeInherited closes every descriptor but the three pipes to the parent. Go marks what it opens to be closed in children, but whoever
// started the parent may have left it others. The runtime's own, with which it waits for events, stay; the file from which it follows
// the CPU quota goes, since a child has chosen its number of processors by itself.
func closeInherited() error {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return fmt.Errorf("list descriptors: %w", err)
	}
	for _, entry := range entries {
		fd, err := strconv.Atoi(entry.Name())
		if err != nil {
			return fmt.Errorf("list descriptors: %w", err)
		}
		if fd <= unix.Stderr {
			continue
		}
		target, err := os.Readlink("/proc/self/fd/" + entry.Name())
		if errors.Is(err, unix.ENOENT) { // the one that listed them
			continue
		} else if err != nil {
			return fmt.Errorf("look at a descriptor: %w", err)
		}
		if strings.HasPrefix(target, "anon_inode:[event") {
			continue
		}
		if err := unix.Close(fd); err != nil {
			return fmt.Errorf("close %s: %w", target, err)
		}
	}
	return nil
}

// fence forbids every file, and what else the kernel's version of Landlock can forbid.
func fence() (Layer, error) {
	layer := Layer{Name: LayerLandlock}
	version, err := llsys.LandlockGetABIVersion()
	if err != nil {
		layer.Missing = fmt.Sprintf("the kernel does not have it, or it was not chosen at boot (%v)", err)
		return layer, nil
	}
	layer.Detail = "ABI " + strconv.Itoa(version)
	if err := landlock.V11.BestEffort().Restrict(); err != nil {
		return layer, fmt.Errorf("put up Landlock: %w", err)
	}
	// An effort may be the best and still nothing.
	if fd, err := unix.Open("/", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0); !errors.Is(err, unix.EACCES) {
		_ = unix.Close(fd)
		return layer, fmt.Errorf("landlock is up, but opening a directory gave %v, not %v", err, unix.EACCES)
	}
	return layer, nil
}
