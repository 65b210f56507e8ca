// Package procstat reads the files stat, statm and io of a process in /proc.
package procstat

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Ticks is the number of clock ticks in a second in files of /proc. It is a constant of the interface (USER_HZ).
const Ticks = 100

const (
	root = "/proc"
	// userTime, systemTime and start are the places of fields of the file stat after the name of the process.
	userTime, systemTime, start = 11, 12, 19
	// resident is the place of a field of the file statm.
	resident = 1
)

// Taken returns the CPU time of all threads of a process, and its resident memory in bytes. The error is fs.ErrNotExist
// if the process has ended.
func Taken(pid int) (cpu time.Duration, memory int64, err error) { return taken(root, pid) }

func taken(root string, pid int) (cpu time.Duration, memory int64, err error) {
	fields, err := fieldsOf(root, pid)
	if err != nil {
		return 0, 0, err
	}
	user, err := number(fields, userTime)
	if err != nil {
		return 0, 0, fmt.Errorf("read the CPU time of process %d: %w", pid, err)
	}
	system, err := number(fields, systemTime)
	if err != nil {
		return 0, 0, fmt.Errorf("read the CPU time of process %d: %w", pid, err)
	}
	text, err := os.ReadFile(filepath.Join(root, strconv.Itoa(pid), "statm"))
	if err != nil {
		return 0, 0, err
	}
	pages, err := number(strings.Fields(string(text)), resident)
	if err != nil {
		return 0, 0, fmt.Errorf("read the memory of process %d: %w", pid, err)
	}
	return time.Duration(user+system) * time.Second / Ticks, pages * int64(os.Getpagesize()), nil
}

// Written returns the number of bytes that a process has caused to be written to disks. The error is fs.ErrPermission if
// the process belongs to another user.
func Written(pid int) (int64, error) { return written(root, pid) }

func written(root string, pid int) (int64, error) {
	text, err := os.ReadFile(filepath.Join(root, strconv.Itoa(pid), "io"))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if value, is := strings.CutPrefix(line, "write_bytes: "); is {
			return strconv.ParseInt(strings.TrimSpace(value), 10, 64)
		}
	}
	return 0, fmt.Errorf("the file io of process %d lacks write_bytes", pid)
}

// Fields returns the fields of the file stat of a process after its name. The first field is the state. The error is
// fs.ErrNotExist if the process has ended.
func Fields(pid int) ([]string, error) { return fieldsOf(root, pid) }

func fieldsOf(root string, pid int) ([]string, error) {
	text, err := os.ReadFile(filepath.Join(root, strconv.Itoa(pid), "stat"))
	if err != nil {
		return nil, err
	}
	return strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:])), nil // the name may contain any character
}

// Start returns the time at which a process was started, in Ticks after the boot. Together with the number of the
// process, it identifies the process until the next boot.
func Start(fields []string) (uint64, error) {
	if len(fields) <= start {
		return 0, fmt.Errorf("the file stat has %d fields after the name", len(fields))
	}
	return strconv.ParseUint(fields[start], 10, 64)
}

// number returns the field at a place.
func number(fields []string, place int) (int64, error) {
	if len(fields) <= place {
		return 0, fmt.Errorf("field %d is missing", place)
	}
	return strconv.ParseInt(fields[place], 10, 64)
}
