package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// setting is a value for a file of a group. A lax setting may fail, because another setting enforces the limit.
type setting struct {
	controller, file, text string
	lax                    bool
}

// period is the CPU accounting period, in microseconds.
const period = 100_000

// settingsOf returns the settings for limits, in the order in which they must be written.
func settingsOf(b Bounds, unified bool) (all []setting) {
	set := func(controller, file, text string, lax bool) {
		all = append(all, setting{controller, file, text, lax})
	}
	number := func(n int64) string { return strconv.FormatInt(n, 10) }
	if b.Memory > 0 && unified {
		set(memory, "memory.swap.max", "0", true)
		set(memory, "memory.max", number(b.Memory), false)
	}
	// The limit including swap (memsw) must never be below the limit without swap. It is therefore written before and
	// after that limit: the first write succeeds if the limits grow, the last one if they shrink.
	if b.Memory > 0 && !unified {
		set(memory, "memory.memsw.limit_in_bytes", number(b.Memory), true)
		set(memory, "memory.limit_in_bytes", number(b.Memory), false)
		set(memory, "memory.memsw.limit_in_bytes", number(b.Memory), true)
	}
	if b.Processes > 0 {
		set(pids, "pids.max", number(b.Processes), false)
	}
	quota := b.MilliCPUs * period / 1000
	if b.MilliCPUs > 0 && unified {
		set(cpu, "cpu.max", fmt.Sprintf("%d %d", quota, period), false)
	}
	if b.MilliCPUs > 0 && !unified {
		set(cpu, "cpu.cfs_period_us", number(period), false)
		set(cpu, "cpu.cfs_quota_us", number(quota), false)
	}
	if b.Weight > 0 && unified {
		set(cpu, "cpu.weight", number(min(max(b.Weight, 1), 10_000)), false)
	}
	if b.Weight > 0 && !unified {
		set(cpu, "cpu.shares", number(min(max(b.Weight*1024/PerCPU, 2), 262_144)), false)
	}
	return all
}

// write writes a setting to the directory of a group.
func (s setting) write(dir string) error {
	err := os.WriteFile(filepath.Join(dir, s.file), []byte(s.text), 0)
	if s.lax && (errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EINVAL)) {
		return nil
	}
	return err
}
