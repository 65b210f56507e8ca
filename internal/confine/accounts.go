package confine

import (
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"writ"
)

// Accounts is a range of user numbers that only writ uses on this host. A process with such a number runs as that user
// and as the group with the same number. The first number of the range is not a user, but the shared group of all users
// in the range. This group may only traverse the directories from Top down to the users' own directories. Each user can
// therefore reach its own files, and no user outside the range except root can.
type Accounts struct {
	SharedGroup uint32
	First, Last uint32 // users
	// Top is the directory that contains all files of the users. It belongs to writ; directories above it are not
	// changed.
	Top string
	// Off is the reason why processes do not get separate users, or nil.
	Off error
}

// About describes the users of processes, as the end of a sentence.
func (a *Accounts) About() string {
	if a.Used() {
		return "as separate users"
	}
	return "as the user of the runner"
}

// Used reports whether processes get separate users.
func (a *Accounts) Used() bool { return a != nil && a.Off == nil }

// Default range. systemd assigns no user or container numbers from 1879048192 to 2147352575. useradd and the
// subordinate IDs of shadow (up to 600100000) do not reach it either, and the IDs that SSSD maps for company
// directories are from 200000 to 2000200000.
const (
	DefaultFirst = 2010000000
	DefaultLast  = 2010065535
)

// leastAccounts is the minimum size of a range, so that a node does not run out of users.
const leastAccounts = 1024

// ParseAccounts parses a range of numbers such as "200000-265535".
func ParseAccounts(text string) (*Accounts, error) {
	a, b, _ := strings.Cut(text, "-")
	first, errA := strconv.ParseUint(a, 10, 32)
	last, errB := strconv.ParseUint(b, 10, 32)
	switch {
	case errA != nil || errB != nil:
		return nil, fmt.Errorf("%q is not a range of user numbers, such as 200000-265535", text)
	case first < 1000 || first <= 65535 && last >= 65534 || last >= 1<<32-1:
		return nil, fmt.Errorf("the user numbers %s include numbers of system users", text)
	case last < first+leastAccounts:
		return nil, fmt.Errorf("%s are fewer than %d user numbers", text, leastAccounts)
	}
	return &Accounts{SharedGroup: uint32(first), First: uint32(first) + 1, Last: uint32(last)}, nil
}

// Numbers returns the range in the format of ParseAccounts.
func (a *Accounts) Numbers() string { return numbers(a.SharedGroup, a.Last) }

func numbers(first, last uint32) string { return fmt.Sprintf("%d-%d", first, last) }

// Taken is the error for numbers that another node on this host uses.
type Taken struct{ First, Last uint32 }

func (t *Taken) Error() string {
	return fmt.Sprintf("another node on this host uses the user numbers %s", numbers(t.First, t.Last))
}

// Others returns a range next to the taken range, in the format of ParseAccounts. It has the same size, or the minimum
// size.
func (t *Taken) Others() string {
	many := max(t.Last-t.First, leastAccounts)
	if t.Last > 1<<31-1-2*many { // signed 32-bit programs accept no larger numbers
		return numbers(t.First-1-many, t.First-1)
	}
	return numbers(t.Last+1, t.Last+1+many)
}

// Halves divides the users between two drivers of a host. Both have the same shared group.
func (a *Accounts) Halves() (lower, upper *Accounts) {
	if a == nil {
		return nil, nil
	}
	low, up := *a, *a
	low.Last = a.First + (a.Last-a.First)/2
	up.First = low.Last + 1
	return &low, &up
}

// Choose returns a number that is not taken. It always returns the same number for a name, unless that number is taken.
func (a *Accounts) Choose(name string, taken func(uint32) bool) (uint32, error) {
	h := fnv.New32a()
	_, _ = h.Write([]byte(name))
	n := a.Last - a.First + 1
	for i := range n {
		if id := a.First + uint32((uint64(h.Sum32())+uint64(i))%uint64(n)); !taken(id) {
			return id, nil
		}
	}
	return 0, fmt.Errorf("all user numbers from %d to %d are taken", a.First, a.Last)
}

// Has reports whether a number is one of the users.
func (a *Accounts) Has(id uint32) bool { return a.Used() && id >= a.First && id <= a.Last }

// Lead lets the users traverse all directories from Top to dir, both included.
func (a *Accounts) Lead(dir string) error {
	below, err := filepath.Rel(a.Top, dir)
	if err != nil || !filepath.IsLocal(below) {
		return fmt.Errorf("%s is not below %s", dir, a.Top)
	}
	at := a.Top
	if err := a.open(at); err != nil || below == "." {
		return err
	}
	for name := range strings.SplitSeq(below, string(filepath.Separator)) {
		at = filepath.Join(at, name)
		if err := a.open(at); err != nil {
			return err
		}
	}
	return nil
}

// open lets the users traverse one directory.
func (a *Accounts) open(dir string) error {
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return fmt.Errorf("%s is not a directory", dir)
	}
	if info.Mode()&0o001 != 0 || info.Mode()&0o010 != 0 && groupOf(info) == a.SharedGroup {
		return nil
	}
	// Chmod precedes Lchown, because the users must never get the rights that the directory's old group has.
	if err := os.Chmod(dir, info.Mode()&^0o070|0o010); err != nil {
		return err
	}
	return os.Lchown(dir, -1, int(a.SharedGroup))
}

// Passable returns the reason why the users cannot reach Top, or nil.
func (a *Accounts) Passable() error {
	for dir := filepath.Dir(a.Top); ; dir = filepath.Dir(dir) {
		info, err := os.Stat(dir)
		switch {
		case errors.Is(err, fs.ErrNotExist): // made later; only the existing directories above it are checked
		case err != nil:
			return err
		case info.Mode()&0o001 == 0:
			return fmt.Errorf("%s lets only some users through", dir)
		}
		if dir == filepath.Dir(dir) {
			return nil
		}
	}
}

// Strangers returns an error if a user, a group, or a subordinate range in the files of the host overlaps these
// numbers.
func (a *Accounts) Strangers() error {
	for _, path := range []string{"/etc/passwd", "/etc/group", "/etc/subuid", "/etc/subgid"} {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // optional
		}
		for line := range strings.Lines(string(text)) {
			fields := strings.Split(strings.TrimSpace(line), ":")
			if len(fields) < 3 {
				continue
			}
			at, many := fields[2], "1"
			if strings.HasPrefix(filepath.Base(path), "sub") {
				at, many = fields[1], fields[2]
			}
			first, errA := strconv.ParseUint(at, 10, 64)
			count, errB := strconv.ParseUint(many, 10, 64)
			if errA == nil && errB == nil && count > 0 && first <= uint64(a.Last) && first+count > uint64(a.SharedGroup) {
				return fmt.Errorf("%s gives numbers from %d to %d to %s", path, first, first+count-1, fields[0])
			}
		}
	}
	return nil
}

// Mapped returns an error if the user namespace of this process does not map all of these numbers. The namespace of a
// container may map only some.
func (a *Accounts) Mapped() error {
	for _, path := range []string{"/proc/self/uid_map", "/proc/self/gid_map"} {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // a kernel without user namespaces has all numbers
		}
		if !a.mapped(string(text)) {
			return fmt.Errorf("this system lacks user numbers from %d to %d (%s)", a.SharedGroup, a.Last, path)
		}
	}
	return nil
}

// mapped reports whether a line of a map covers all numbers. A line has the first number inside, the first outside, and
// the count.
func (a *Accounts) mapped(text string) bool {
	for line := range strings.Lines(text) {
		var inside, outside, count uint64
		if _, err := fmt.Sscan(line, &inside, &outside, &count); err == nil && inside <= uint64(a.SharedGroup) &&
			uint64(a.Last) < inside+count {
			return true
		}
	}
	return false
}

// Usable returns an error if users cannot execute one of the programs that are on PATH, or cannot open one of the
// devices. Its hint has the remedy.
func Usable(programs, devices []string) error {
	var faults, fixes []string
	for _, name := range programs {
		path, err := exec.LookPath(name)
		if err != nil {
			continue // the code that needs the program reports that it is missing
		}
		if path, err = filepath.EvalSymlinks(path); err == nil {
			path, err = filepath.Abs(path)
		}
		for at := path; err == nil; at = filepath.Dir(at) {
			if info, failed := os.Stat(at); failed != nil || info.Mode()&0o001 == 0 {
				err = fmt.Errorf("not every user may execute %s", path)
			}
			if at == filepath.Dir(at) {
				break
			}
		}
		if err != nil {
			faults = append(faults, err.Error())
			fixes = append(fixes, "put "+name+" where every user may execute it: /usr/local/bin")
		}
	}
	for _, path := range devices {
		info, err := os.Stat(path)
		if err == nil && info.Mode()&0o006 != 0o006 && len(deviceGroups([]string{path})) == 0 {
			faults, fixes = append(faults, "only root's group may open "+path), append(fixes, DeviceFix(path))
		}
	}
	if faults == nil {
		return nil
	}
	return writ.Errorf(writ.CodeDriverMissing, "%s", strings.Join(faults, "; ")).WithHint("%s", strings.Join(fixes, "; "))
}

// DeviceFix returns the commands for root that let other users open a device, now and after a reboot.
func DeviceFix(path string) string {
	name := filepath.Base(path)
	if path == "/dev/net/tun" {
		return "chmod 666 " + path + "; where no udev does that at each start: echo 'c! " + path +
			" 0666 root root - 10:200' > /etc/tmpfiles.d/" + name + ".conf"
	}
	return fmt.Sprintf("groupadd -rf %[1]s; chgrp %[1]s %[2]s; chmod 660 %[2]s; so that it stays: echo 'KERNEL==\"%[1]s\", GROUP=\"%[1]s\", MODE=\"0660\"' > /etc/udev/rules.d/65-%[1]s.rules", name, path)
}

// deviceGroups returns the groups, other than root's, whose members can open one of the devices.
func deviceGroups(devices []string) (all []uint32) {
	for _, path := range devices {
		info, err := os.Stat(path)
		if err != nil || info.Mode()&0o006 == 0o006 || info.Mode()&0o060 != 0o060 {
			continue
		}
		if id := groupOf(info); id != 0 && !slices.Contains(all, id) {
			all = append(all, id)
		}
	}
	return all
}
