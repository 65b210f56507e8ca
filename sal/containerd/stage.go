package containerd

import (
	"fmt"
	"path/filepath"
)

// stage is a directory that is filled while the runtime makes the process of a container, and is empty before and
// after. It holds mounts of its layer and volumes with mapped IDs, and its user namespace. The process copies these
// mounts into its own mount namespace. After a crash, a mount of a volume can therefore remain only on the stage, which
// the next start or the deletion of the container clears first.
type stage struct {
	dir  string
	step func(name string)
}

func (j *job) stage(id string) stage { return stage{filepath.Join(j.Dir, "stages", id), j.step} }

// volume returns the path of a volume of the container.
func (s stage) volume(i int) string { return filepath.Join(s.dir, fmt.Sprintf("volume-%d", i)) }

// user returns the path of the user namespace file.
func (s stage) user() string { return filepath.Join(s.dir, "user") }
