package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// Machine is where something was measured. Numbers without it say nothing.
type Machine struct {
	CPU    string `json:"cpu"` // its model
	CPUs   int    `json:"cpus"`
	OS     string `json:"os"`
	Kernel string `json:"kernel"`
	Go     string `json:"go"`
	Fsync  Spread `json:"fsync"` // of 4 KiB that are appended to a file in the data directory
}

// syncs is how many writes are timed: some 100 ms on a good disk.
const syncs = 200

func thisMachine(dir string) (Machine, error) {
	m := Machine{
		CPU: cpuModel(), CPUs: runtime.NumCPU(), OS: runtime.GOOS + "/" + runtime.GOARCH, Kernel: firstLine("/proc/sys/kernel/osrelease"), Go: runtime.Version(),
	}
	var err error
	m.Fsync, err = timeSyncs(dir)
	return m, err
}

// timeSyncs measures how long the disk takes to keep something.
func timeSyncs(dir string) (Spread, error) {
	f, err := os.Create(filepath.Join(dir, "fsync"))
	if err != nil {
		return Spread{}, fmt.Errorf("measure the disk: %w", err)
	}
	defer os.Remove(f.Name())
	defer f.Close()
	var times []time.Duration
	block := make([]byte, 4096)
	for range syncs {
		begun := time.Now()
		_, err := f.Write(block)
		if err := errors.Join(err, f.Sync()); err != nil {
			return Spread{}, fmt.Errorf("measure the disk: %w", err)
		}
		times = append(times, time.Since(begun))
	}
	return spreadOf(times), nil
}

// cpuModel is what the kernel calls the processor, "" if it does not say.
func cpuModel() string {
	text, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(text)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// firstLine returns the first line of a file, "" if there is none.
func firstLine(path string) string {
	text, _ := os.ReadFile(path)
	line, _, _ := strings.Cut(string(text), "\n")
	return line
}

// redisVersion asks redis-server, "" if it cannot be asked.
func redisVersion(ctx context.Context) string {
	said, err := exec.CommandContext(ctx, "redis-server", "--version").Output()
	if err != nil {
		return ""
	}
	for field := range strings.FieldsSeq(string(said)) {
		if version, ok := strings.CutPrefix(field, "v="); ok {
			return version
		}
	}
	return ""
}
