package needs

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"writ/internal/cgroup"
	"writ/internal/confine"
)

// versionPattern finds the version in what a program says of itself.
var versionPattern = regexp.MustCompile(`(?:^|[ =v])([0-9]+(?:\.[0-9]+)+)`)

// Program looks for a program, by its name on PATH or its path, and asks it for its version, which must be least or newer. Without
// arguments for that, or if it says no version, it is taken as it is.
func Program(name, least string, versionArgs ...string) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		path, err := exec.LookPath(name)
		if errors.Is(err, exec.ErrNotFound) {
			return "", errors.New("not on PATH")
		}
		if err != nil {
			return "", err
		}
		if len(versionArgs) == 0 {
			return path, nil
		}
		said, err := exec.CommandContext(ctx, path, versionArgs...).Output()
		if err != nil && ctx.Err() != nil {
			return "", fmt.Errorf("%s does not say its version", path)
		}
		match := versionPattern.FindSubmatch(said)
		if match == nil {
			return path, nil
		}
		version := string(match[1])
		if !AtLeast(version, least) {
			return "", fmt.Errorf("%s is %s, and %s or newer is needed", path, version, least)
		}
		return path + ", " + version, nil
	}
}

// AtLeast compares two versions number by number; what least does not have does not count, and what is no number is too old.
func AtLeast(version, least string) bool {
	if least == "" {
		return true
	}
	v := strings.Split(version, ".")
	for i, l := range strings.Split(least, ".") {
		if i >= len(v) {
			return false
		}
		a, errA := strconv.Atoi(v[i])
		b, errB := strconv.Atoi(l)
		if errA != nil || errB != nil {
			return false
		}
		if a != b {
			return a > b
		}
	}
	return true
}

// Root looks whether this process is root.
func Root(context.Context) (string, error) {
	if id := os.Geteuid(); id != 0 {
		return "", fmt.Errorf("this is the user %d", id)
	}
	return "root", nil
}

// Openable looks whether this process can read and write a file, a device mostly.
func Openable(path string) func(context.Context) (string, error) {
	return func(context.Context) (string, error) {
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			return "", err
		}
		return path, f.Close()
	}
}

// Given looks whether a driver was given what it asks another driver of the host for.
func Given(given bool) func(context.Context) (string, error) {
	return func(context.Context) (string, error) {
		if !given {
			return "", errors.New("there are none")
		}
		return "there are", nil
	}
}

// Authorities looks whether this host has certificates of authorities that servers are believed by.
func Authorities(context.Context) (string, error) {
	pool, err := x509.SystemCertPool()
	if err == nil && pool.Equal(x509.NewCertPool()) {
		err = errors.New("this host has none")
	}
	if err != nil {
		return "", err
	}
	return "certificates of this host", nil
}

// Room looks whether the disk of a directory, which need not exist yet, has some room, in bytes.
func Room(dir string, least int64) func(context.Context) (string, error) {
	return func(context.Context) (string, error) {
		at := Nearest(dir)
		free, err := freeBytes(at)
		if err != nil {
			return "", err
		}
		if free < least {
			return "", fmt.Errorf("%d MiB are free at %s", free>>20, at)
		}
		return fmt.Sprintf("%d GiB are free at %s", free>>30, at), nil
	}
}

// Nearest is the directory, or the nearest one above it that exists.
func Nearest(dir string) string {
	for ; dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if info, err := os.Stat(dir); err == nil && info.IsDir() {
			break
		}
	}
	return dir
}

// ControllersFix is what to type where groups lack a controller.
const ControllersFix = "run the node as root; mount -t cgroup2 none /sys/fs/cgroup; no cgroup_disable= among the kernel's arguments"

// Controllers looks whether groups have all of these controllers.
func Controllers(groups *cgroup.Groups, wanted ...string) func(context.Context) (string, error) {
	return func(context.Context) (string, error) {
		lacking, err := groups.Lacks()
		if err != nil {
			return "", err
		}
		lacking = slices.DeleteFunc(lacking, func(c string) bool { return !slices.Contains(wanted, c) })
		if len(lacking) > 0 {
			return "", fmt.Errorf("%s lack %s", groups.About(), strings.Join(lacking, " and "))
		}
		return groups.About(), nil
	}
}

// AccountsFix is what to do where processes have no users of their own.
const AccountsFix = "run the node as root, with --data below directories that every user may pass through (/var/lib/writ), and not with --process-users none"

// Accounts looks whether there are users for processes.
func Accounts(accounts *confine.Accounts) func(context.Context) (string, error) {
	return func(context.Context) (string, error) {
		if accounts == nil {
			return "", errors.New("there are none")
		}
		if accounts.Off != nil {
			return "", accounts.Off
		}
		return fmt.Sprintf("%d-%d", accounts.First, accounts.Last), nil
	}
}
