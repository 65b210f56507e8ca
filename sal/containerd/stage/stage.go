// Package stage makes mounts for a container with its own users: its layer and its volumes with mapped IDs, and its
// user namespace. It also makes device nodes. It uses neither records nor the daemon.
package stage

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	mounting "github.com/containerd/containerd/v2/core/mount"
)

// Stage is a directory that is filled while the runtime makes the process of a container, and is empty before and
// after. It holds mounts of its layer and volumes with mapped IDs, and its user namespace. The process copies these
// mounts into its own mount namespace. After a crash, a mount of a volume can therefore remain only on the stage, which
// the next start or the deletion of the container clears first.
type Stage struct {
	Dir  string
	Step func(name string) // called before each change
}

// Volume returns the path of a volume of the container.
func (s Stage) Volume(i int) string { return filepath.Join(s.Dir, fmt.Sprintf("volume-%d", i)) }

// Files returns the path of the directory with the container's files.
func (s Stage) Files() string { return filepath.Join(s.Dir, "files") }

// Device returns the path of the node of a device of the container.
func (s Stage) Device(i int) string { return filepath.Join(s.devices(), strconv.Itoa(i)) }

func (s Stage) devices() string { return filepath.Join(s.Dir, "devices") }

// User returns the path of the user namespace file.
func (s Stage) User() string { return filepath.Join(s.Dir, "user") }

// Root returns the path of the root directory of the container.
func (s Stage) Root() string { return filepath.Join(s.Dir, "root") }

// Content holds the objects on a stage.
type Content struct {
	User    *os.File // the user namespace of the container
	IDs     uint32   // first of its user IDs on this host
	Volumes []string // the directories of its volumes, in the order of its arguments
	Files   string   // the directory of its files; may be empty
	Layer   []mounting.Mount
}
