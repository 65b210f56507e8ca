// Package procstat reads the CPU time and the memory of a process from /proc.
package procstat

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

const (
	root = "/proc"
	// ticks is the number of clock ticks in a second in files of /proc. It is a constant of the interface (USER_HZ).
	ticks = 100
	// userTime and systemTime are the places of two fields of the file stat after the name of the process.
	userTime, systemTime = 11, 12
	// resident is the place of a field of the file statm.
	resident = 1
)

// Taken returns the CPU time of all threads of a process, and its resident memory in bytes. The error is fs.ErrNotExist
// if the process has ended.
func Taken(pid int) (cpu time.Duration, memory int64, err error) { return taken(root, pid) }

func taken(root string, pid int) (cpu time.Duration, memory int64, err error) {
	dir := filepath.Join(root, strconv.Itoa(pid))
	text, err := os.ReadFile(filepath.Join(dir, "stat"))
	if err != nil {
		return 0, 0, err
	}
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:]) // the name before it may contain any character
	user, err := number(fields, userTime)
	if err != nil {
		return 0, 0, fmt.Errorf("read the CPU time of process %d: %w", pid, err)
	}
	system, err := number(fields, systemTime)
	if err != nil {
		return 0, 0, fmt.Errorf("read the CPU time of process %d: %w", pid, err)
	}
	if text, err = os.ReadFile(filepath.Join(dir, "statm")); err != nil {
		return 0, 0, err
	}
	pages, err := number(bytes.Fields(text), resident)
	if err != nil {
		return 0, 0, fmt.Errorf("read the memory of process %d: %w", pid, err)
	}
	return time.Duration(user+system) * time.Second / ticks, pages * int64(os.Getpagesize()), nil
}

// number returns the field at a place.
func number(fields [][]byte, place int) (int64, error) {
	if len(fields) <= place {
		return 0, fmt.Errorf("field %d is missing", place)
	}
	return strconv.ParseInt(string(fields[place]), 10, 64)
}
