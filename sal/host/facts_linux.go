package host

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"writ/internal/diskspace"
	"writ/sal/catalog"
)

const gib = 1 << 30

// read returns the facts that the Go standard library does not provide.
//
//failpoint:none it opens the file only to check access
func read(dir string) (catalog.NodeFacts, error) {
	var f catalog.NodeFacts
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return f, err
	}
	f.BootID = strings.TrimSpace(string(boot))

	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return f, fmt.Errorf("uname: %w", err)
	}
	f.Kernel = unix.ByteSliceToString(name.Release[:])
	f.OS = osName()

	meminfo, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return f, err
	}
	if f.MemoryMiB, err = memoryMiB(meminfo); err != nil {
		return f, err
	}

	size, free, err := diskspace.Of(dir)
	if err != nil {
		return f, fmt.Errorf("inspect the disk of %s: %w", dir, err)
	}
	f.DiskGiB, f.DiskFreeGiB = size/gib, free/gib

	if kvm, err := os.OpenFile("/dev/kvm", os.O_RDWR, 0); err == nil {
		f.KVM = true
		_ = kvm.Close()
	}
	return f, nil
}

// memoryMiB reads the first line of /proc/meminfo, "MemTotal:       24033520 kB".
func memoryMiB(meminfo []byte) (int64, error) {
	line, _, _ := bytes.Cut(meminfo, []byte("\n"))
	fields := strings.Fields(string(line))
	if len(fields) != 3 || fields[0] != "MemTotal:" {
		return 0, fmt.Errorf("/proc/meminfo starts with %q", line)
	}
	kib, err := strconv.ParseInt(fields[1], 10, 64)
	return kib / 1024, err
}

// osName returns the name of the distribution, "linux" if it is unknown.
func osName() string {
	file, err := os.Open("/etc/os-release")
	if err != nil {
		return "linux"
	}
	defer file.Close()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		if value, ok := strings.CutPrefix(lines.Text(), "PRETTY_NAME="); ok {
			return strings.Trim(value, `"'`)
		}
	}
	return "linux"
}
