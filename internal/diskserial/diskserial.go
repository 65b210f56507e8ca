// Package diskserial reads the serial numbers of disks from the files of the kernel. It must not know what they are for.
package diskserial

import (
	"io"
	"io/fs"
	"path"
	"strings"
)

// mostRead is more than any of the files has that matter.
const mostRead = 4 << 10

// Of returns the serial number of a disk, wherever its bus has put it, and "" if it has none. at is the directory of the disk, such as
// sys/block/vda.
func Of(root fs.FS, at string) string {
	for _, name := range []string{"serial", "device/serial"} { // of virtio, and of NVMe and MMC
		if text := read(root, path.Join(at, name)); text != "" {
			return text
		}
	}
	if page := read(root, path.Join(at, "device/vpd_pg80")); len(page) > 4 { // of SCSI, SATA and USB: four bytes come first
		return strings.Trim(page[4:], " \x00")
	}
	return ""
}

func read(root fs.FS, name string) string {
	file, err := root.Open(name)
	if err != nil {
		return ""
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, mostRead))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}
