package containerd

import (
	"fmt"
	"path/filepath"
)

// The stage of a container is a directory that is filled while the runtime makes its process, and empty before and after: its layer and its
// volumes as its users have them, and its user namespace. The process has them in mounts of its own from then on. So nothing that survives a
// crash leads to a volume but what the next start of the container, or its deletion, takes away first.

func (d *Driver) stage(id string) string { return filepath.Join(d.Dir, "stages", id) }

// staged is where a volume of a container is on its stage.
func (d *Driver) staged(id string, volume int) string {
	return filepath.Join(d.stage(id), fmt.Sprintf("volume-%d", volume))
}

// stagedUser is the file of the user namespace.
func (d *Driver) stagedUser(id string) string { return filepath.Join(d.stage(id), "user") }
