// Package diskserial reads the serial numbers of disks from the kernel's files. It does not depend on the use of the
// numbers.
package diskserial

import (
	"io"
	"io/fs"
	"path"
	"strings"
)

// mostRead limits the bytes read from a file. All relevant files are smaller.
const mostRead = 4 << 10

// Of returns the serial number of a disk on any supported bus, or "". `at` is the directory of the disk, such as
// sys/block/vda.
func Of(root fs.FS, at string) string {
	for _, name := range []string{"serial", "device/serial"} { // virtio; NVMe and MMC
		if text := read(root, path.Join(at, name)); text != "" {
			return text
		}
	}
	// SCSI, SATA and USB: after a header of four bytes.
	if page := read(root, path.Join(at, "device/vpd_pg80")); len(page) > 4 {
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
