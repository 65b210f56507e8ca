package config

import (
	"os"
	"path/filepath"

	"writ"
)

// unsafeDisks lists the file systems on which a daemon must not keep records, by the number that statfs returns.
var unsafeDisks = map[uint32]struct {
	name    string
	network bool
}{
	0x01021994: {"tmpfs", false},
	0x858458f6: {"ramfs", false},
	0x6969:     {"NFS", true},
	0x517b:     {"SMB", true},
	0xfe534d42: {"SMB", true},
	0xff534d42: {"SMB", true},
	0x01021997: {"9P", true},
	0x5346414f: {"AFS", true},
}

// UnsafeData returns DATA_UNSAFE if a data directory is on a file system in memory or on the network, otherwise nil.
// The directory may be missing; its nearest existing parent counts.
func UnsafeData(data string) error {
	dir, err := filepath.Abs(data)
	if err != nil {
		return nil // opening the stores reports it
	}
	for ; dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if _, err := os.Stat(dir); err == nil {
			break
		}
	}
	return unsafeDisk(data, kindOfDisk(dir))
}

func unsafeDisk(data string, kind uint32) error {
	disk, listed := unsafeDisks[kind]
	switch {
	case !listed:
		return nil
	case disk.network:
		return writ.Errorf(writ.CodeDataUnsafe,
			"the data directory %s is on a network file system (%s), which can lose locks and writes", data, disk.name).
			WithHint("stop the daemon, move the directory to a local disk, and name it with --data; " +
				"a coordinator and a supervisor can use PostgreSQL instead of a file")
	default:
		return writ.Errorf(writ.CodeDataUnsafe,
			"the data directory %s is in memory (%s): a restart of the machine deletes it", data, disk.name).
			WithHint("stop the daemon, move the directory to a disk, and name it with --data")
	}
}
