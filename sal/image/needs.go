package image

import (
	"context"
	"fmt"
	"os"
	"strings"

	"writ/internal/confine"
	"writ/sal/needs"
)

// roomForImages is the recommended free disk space for images, in bytes. The image of a distribution has a few hundred
// MiB.
const roomForImages = 2 << 30

// Needs returns the requirements of the driver.
func (d *Driver) Needs() []needs.Need {
	return []needs.Need{
		{
			Name: "disk space", Use: "images soon fail with DISK_FULL",
			Fix: "free disk space, or give the runner a --data on a larger disk", Look: needs.Room(d.Dir, roomForImages),
		},
		{Name: "directories of images",
			Use: "images cannot be made from files of the node, or not from files below the named directory",
			Fix: "create the directory of --image-dir, or name another one", Look: d.lookDirs},
		{
			Name: "authorities", Use: "images cannot be fetched over https", Fix: "apt-get install -y ca-certificates",
			Look: needs.Authorities,
		},
		{
			Name: "the program qemu-img", Use: "images of format qcow2 are refused", Fix: "apt-get install -y qemu-utils",
			Look: needs.Program("qemu-img", ""),
		},
		{Name: "Landlock",
			Use: "qemu-img can read files that all users can read; without separate users for processes, images of " +
				"format qcow2 are refused",
			Fix: "boot Linux 5.13 or newer with landlock among the security modules (lsm= among the kernel's " +
				"arguments)", Look: lookLandlock},
	}
}

// lookLandlock checks whether the kernel can restrict the file access of the converter.
func lookLandlock(context.Context) (string, error) {
	version, err := confine.Landlock()
	if err != nil {
		return "", fmt.Errorf("the kernel lacks it, or it was not selected at boot: %w", err)
	}
	return fmt.Sprintf("version %d", version), nil
}

// lookDirs checks whether the image directories exist. It is not an error if none is configured.
func (d *Driver) lookDirs(context.Context) (string, error) {
	for _, dir := range d.Dirs {
		root, err := os.OpenRoot(dir)
		if err != nil {
			return "", fmt.Errorf("open the directory %s: %w", dir, err)
		}
		_ = root.Close()
	}
	if len(d.Dirs) == 0 {
		return "none is configured, so the node provides no files", nil
	}
	return strings.Join(d.Dirs, ", "), nil
}
