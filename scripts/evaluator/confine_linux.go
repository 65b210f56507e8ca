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

// confine drops the rights that a child does not need. It runs before the first byte of a script is read, and holds for
// the rest of the process's life. All confinement of children belongs here. It returns the layers with their state. A
// layer that the kernel lacks is reported as missing. It is an error if a layer that the kernel has fails, or if a
// layer that every kernel has is missing.
func confine() (Layers, error) {
	layers := Layers{{Name: LayerLimits}, {Name: LayerDescriptors}, {Name: LayerPrivileges}}
	if err := setLimits(); err != nil {
		return nil, err
	}
	if err := closeInherited(); err != nil {
		return nil, err
	}
	if err := llsys.AllThreadsPrctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return nil, fmt.Errorf("forbid new privileges: %w", err)
	}
	files, err := denyFiles()
	if err != nil {
		return nil, err
	}
	// From here on root owns the files of this process in /proc, and neither a debugger nor a core dump can read its
	// memory.
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return nil, fmt.Errorf("forbid dumps: %w", err)
	}
	calls, err := filter() // last, because it forbids calls that the other layers need
	if err != nil {
		return nil, err
	}
	return append(layers, files, calls), nil
}

// setLimits limits the resources of the process.
func setLimits() error {
	for _, limit := range []struct {
		name     string
		resource int
		value    uint64
	}{
		// Of the limits on memory, only RLIMIT_DATA stops a Go process cleanly; RLIMIT_AS prevents its start. Go allocates
		// its heap in pieces of 64 MiB, so without maxOther for the stacks of the threads, the last piece would exceed the
		// limit.
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

// closeInherited closes all descriptors except the three pipes to the parent. Go opens files with close-on-exec, but
// the parent may have inherited other descriptors. The event descriptors of the runtime stay open. The file with the
// CPU quota is closed, because a child sets its number of processors itself.
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
		if errors.Is(err, unix.ENOENT) { // the descriptor of the listing
			continue
		} else if err != nil {
			return fmt.Errorf("inspect descriptor: %w", err)
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

// denyFiles denies access to all files, and everything else that the kernel's version of Landlock can deny.
func denyFiles() (Layer, error) {
	layer := Layer{Name: LayerLandlock}
	version, err := llsys.LandlockGetABIVersion()
	if err != nil {
		layer.Missing = fmt.Sprintf("the kernel lacks it, or it was disabled at boot (%v)", err)
		return layer, nil
	}
	layer.Detail = "ABI " + strconv.Itoa(version)
	if err := landlock.V11.BestEffort().Restrict(); err != nil {
		return layer, fmt.Errorf("set up Landlock: %w", err)
	}
	// BestEffort may have no effect, so this opens a directory as a test.
	if fd, err := unix.Open("/", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0); !errors.Is(err, unix.EACCES) {
		_ = unix.Close(fd)
		return layer, fmt.Errorf("landlock is active, but opening a directory gave %v, not %v", err, unix.EACCES)
	}
	return layer, nil
}
