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

// Machine describes the machine of a measurement. Without it, the numbers have no meaning.
type Machine struct {
	CPU    string `json:"cpu"` // model name
	CPUs   int    `json:"cpus"`
	OS     string `json:"os"`
	Kernel string `json:"kernel"`
	Go     string `json:"go"`
	Fsync  Spread `json:"fsync"` // of a 4 KiB append to a file in the data directory
}

// syncs is the number of timed writes. On a fast disk, they take about 100 ms in total.
const syncs = 200

func thisMachine(dir string) (Machine, error) {
	m := Machine{
		CPU: cpuModel(), CPUs: runtime.NumCPU(), OS: runtime.GOOS + "/" + runtime.GOARCH, Kernel: firstLine("/proc/sys/kernel/osrelease"), Go: runtime.Version(),
	}
	var err error
	m.Fsync, err = timeSyncs(dir)
	return m, err
}

// timeSyncs measures the time of a write with fsync.
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

// cpuModel returns the model name of the CPU, "" if unknown.
func cpuModel() string {
	text, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(text)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// firstLine returns the first line of a file, "" on error.
func firstLine(path string) string {
	text, _ := os.ReadFile(path)
	line, _, _ := strings.Cut(string(text), "\n")
	return line
}

// redisVersion returns the version of redis-server, "" on error.
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
