package containerd

import (
	"fmt"
	"path/filepath"
)

// The stage of a container is a directory that is filled while the runtime makes its process, and is empty before and
// after. It holds mounts of its layer and volumes with mapped IDs, and its user namespace. The process copies these
// mounts into its own mount namespace. After a crash, a mount of a volume can therefore remain only on the stage, which
// the next start or the deletion of the container clears first.

func (d *Driver) stage(id string) string { return filepath.Join(d.Dir, "stages", id) }

// staged returns the path of a volume on the stage of a container.
func (d *Driver) staged(id string, volume int) string {
	return filepath.Join(d.stage(id), fmt.Sprintf("volume-%d", volume))
}

// stagedUser returns the path of the user namespace file.
func (d *Driver) stagedUser(id string) string { return filepath.Join(d.stage(id), "user") }
