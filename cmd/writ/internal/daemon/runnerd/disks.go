package runnerd

import (
	"os"
	"path/filepath"

	"writ"
	"writ/runner/hardware"
)

// disksBelow returns a function that measures the disk of a node's data directory, and each disk that is mounted at a
// directory of a driver.
func disksBelow(data string) func() []writ.Disk {
	return func() []writ.Disk {
		dirs := []string{data}
		drivers, err := os.ReadDir(hostDir(data))
		if err != nil {
			return hardware.Disks(dirs...)
		}
		for _, d := range drivers {
			dirs = append(dirs, filepath.Join(hostDir(data), d.Name()))
		}
		return hardware.Disks(dirs...)
	}
}
