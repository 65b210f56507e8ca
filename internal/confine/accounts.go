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

// Accounts are numbers of users that nobody else on a host has. A process that gets one runs as that user, in a group of the same number.
// The first number is no user: it is a group in which all of them are, the shared group, which may go through the directories above theirs and do
// nothing else there. So they reach what is theirs, and nobody but root goes the same way.
type Accounts struct {
	SharedGroup uint32
	First, Last uint32 // users
	// Top is the directory below which everything of the users is. It is writ's; what is above it is not changed.
	Top string
	// Off says why there are no users after all, nil if there are.
	Off error
}

// About says in some words as whom processes run, as the end of a sentence.
func (a *Accounts) About() string {
	if a.Used() {
		return "as users of their own"
	}
	return "as the runner does"
}

// Used reports whether processes get users.
func (a *Accounts) Used() bool { return a != nil && a.Off == nil }

// The numbers that are used if nobody says others. systemd gives no user or container numbers from 1879048192 to 2147352575, nor does
// useradd or shadow's subordinate ids (up to 600100000); directories of companies begin at 200000 and end at 2000200000 as SSSD maps them.
const (
	DefaultFirst = 2010000000
	DefaultLast  = 2010065535
)

// leastAccounts is how many numbers there must be, so that a node does not run out of them.
const leastAccounts = 1024

// ParseAccounts reads a range of numbers, "200000-265535".
func ParseAccounts(text string) (*Accounts, error) {
	a, b, _ := strings.Cut(text, "-")
	first, errA := strconv.ParseUint(a, 10, 32)
	last, errB := strconv.ParseUint(b, 10, 32)
	switch {
	case errA != nil || errB != nil:
		return nil, fmt.Errorf("%q is no range of user numbers as 200000-265535 is one", text)
	case first < 1000 || first <= 65535 && last >= 65534 || last >= 1<<32-1:
		return nil, fmt.Errorf("the user numbers %s have some of the system among them", text)
	case last < first+leastAccounts:
		return nil, fmt.Errorf("%s are fewer than %d user numbers", text, leastAccounts)
	}
	return &Accounts{SharedGroup: uint32(first), First: uint32(first) + 1, Last: uint32(last)}, nil
}

// Numbers is the range as ParseAccounts reads it.
func (a *Accounts) Numbers() string { return numbers(a.SharedGroup, a.Last) }

func numbers(first, last uint32) string { return fmt.Sprintf("%d-%d", first, last) }

// Taken is the error about numbers that somebody else on this host gives out.
type Taken struct{ First, Last uint32 }

func (t *Taken) Error() string {
	return fmt.Sprintf("another node on this host gives out the user numbers %s", numbers(t.First, t.Last))
}

// Others are as many numbers that follow, as ParseAccounts reads them.
func (t *Taken) Others() string {
	many := max(t.Last-t.First, leastAccounts)
	if t.Last > 1<<31-1-2*many { // who reads numbers with a sign has no larger ones
		return numbers(t.First-1-many, t.First-1)
	}
	return numbers(t.Last+1, t.Last+1+many)
}

// Halves gives two drivers of a host numbers of their own each, and the same shared group.
func (a *Accounts) Halves() (lower, upper *Accounts) {
	if a == nil {
		return nil, nil
	}
	low, up := *a, *a
	low.Last = a.First + (a.Last-a.First)/2
	up.First = low.Last + 1
	return &low, &up
}

// Choose returns the number for a name: always the same one, unless that is taken.
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

// Lead lets the users through all directories from Top to one, both included.
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

// open lets the users go through one directory.
func (a *Accounts) open(dir string) error {
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return fmt.Errorf("%s is no directory", dir)
	}
	if info.Mode()&0o001 != 0 || info.Mode()&0o010 != 0 && groupOf(info) == a.SharedGroup {
		return nil
	}
	if err := os.Chmod(dir, info.Mode()&^0o070|0o010); err != nil { // first: what its group might do, the users must never
		return err
	}
	return os.Lchown(dir, -1, int(a.SharedGroup))
}

// Passable returns why the users cannot come to Top, nil if they can.
func (a *Accounts) Passable() error {
	for dir := filepath.Dir(a.Top); ; dir = filepath.Dir(dir) {
		info, err := os.Stat(dir)
		switch {
		case errors.Is(err, fs.ErrNotExist): // it is made later, open or closed; what is above it counts
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

// Strangers returns who has numbers among these already, as far as files of the host say: a user, a group, or a range that is given to one.
func (a *Accounts) Strangers() error {
	for _, path := range []string{"/etc/passwd", "/etc/group", "/etc/subuid", "/etc/subgid"} {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // there need not be any
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

// Mapped returns why there are no such numbers here, nil if there are: a container may have few.
func (a *Accounts) Mapped() error {
	for _, path := range []string{"/proc/self/uid_map", "/proc/self/gid_map"} {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // a kernel without user namespaces has all numbers
		}
		if !a.mapped(string(text)) {
			return fmt.Errorf("this system has not all user numbers from %d to %d (%s)", a.SharedGroup, a.Last, path)
		}
	}
	return nil
}

// mapped reports whether a line of a map, which has the first number inside, the first outside and how many, has all numbers.
func (a *Accounts) mapped(text string) bool {
	for line := range strings.Lines(text) {
		var inside, outside, count uint64
		if _, err := fmt.Sscan(line, &inside, &outside, &count); err == nil && inside <= uint64(a.SharedGroup) && uint64(a.Last) < inside+count {
			return true
		}
	}
	return false
}

// Usable returns why users cannot execute one of these programs, as far as they are on PATH, or open one of these devices, with what to do
// about it as a hint.
func Usable(programs, devices []string) error {
	var faults, fixes []string
	for _, name := range programs {
		path, err := exec.LookPath(name)
		if err != nil {
			continue // who needs it says so
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
			faults, fixes = append(faults, err.Error()), append(fixes, "put "+name+" where every user may execute it: /usr/local/bin")
		}
	}
	for _, path := range devices {
		info, err := os.Stat(path)
		if err == nil && info.Mode()&0o006 != 0o006 && len(deviceGroups([]string{path})) == 0 {
			faults, fixes = append(faults, "no group but root's may open "+path), append(fixes, DeviceFix(path))
		}
	}
	if faults == nil {
		return nil
	}
	return writ.Errorf(writ.CodeDriverMissing, "%s", strings.Join(faults, "; ")).WithHint("%s", strings.Join(fixes, "; "))
}

// DeviceFix is what to type, as root, so that processes of users who are not root open a device: now, and after the host has started anew.
func DeviceFix(path string) string {
	name := filepath.Base(path)
	if path == "/dev/net/tun" {
		return "chmod 666 " + path + "; where no udev does that at each start: echo 'c! " + path + " 0666 root root - 10:200' > /etc/tmpfiles.d/" + name + ".conf"
	}
	return fmt.Sprintf("groupadd -rf %[1]s; chgrp %[1]s %[2]s; chmod 660 %[2]s; so that it stays: echo 'KERNEL==\"%[1]s\", GROUP=\"%[1]s\", MODE=\"0660\"' > /etc/udev/rules.d/65-%[1]s.rules", name, path)
}

// deviceGroups are the groups that open these devices for whoever is in them, other than root's.
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
