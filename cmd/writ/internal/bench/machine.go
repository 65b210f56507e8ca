package bench

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"time"
)

// Machine is where something was measured. Numbers without it say nothing.
type Machine struct {
	CPUs  int    `json:"cpus"`
	OS    string `json:"os"`
	Go    string `json:"go"`
	Fsync Spread `json:"fsync"` // of 4 KiB that are appended to a file in the data directory
}

// syncs is how many writes are timed: some 100 ms on a good disk.
const syncs = 200

func thisMachine(dir string) (Machine, error) {
	m := Machine{CPUs: runtime.NumCPU(), OS: runtime.GOOS + "/" + runtime.GOARCH, Go: runtime.Version()}
	f, err := os.Create(filepath.Join(dir, "fsync"))
	if err != nil {
		return m, fmt.Errorf("measure the disk: %w", err)
	}
	defer os.Remove(f.Name())
	defer f.Close()
	var times []time.Duration
	block := make([]byte, 4096)
	for range syncs {
		begun := time.Now()
		_, err := f.Write(block)
		if err := errors.Join(err, f.Sync()); err != nil {
			return m, fmt.Errorf("measure the disk: %w", err)
		}
		times = append(times, time.Since(begun))
	}
	m.Fsync = spreadOf(times)
	return m, nil
}
