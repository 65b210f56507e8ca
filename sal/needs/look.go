package needs

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"writ/internal/cgroup"
	"writ/internal/confine"
	"writ/internal/diskspace"
)

// Program checks for a program, by name on PATH or by path. The program must report the version `least` or newer. If
// the output of --version contains no version, any version is accepted.
func Program(name, least string) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		path, err := exec.LookPath(name)
		if errors.Is(err, exec.ErrNotFound) {
			return "", errors.New("not on PATH")
		}
		if err != nil {
			return "", err
		}
		version, err := versionOf(ctx, path, []string{path, "--version"})
		if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
			return "", err
		}
		if version == "" {
			return path, nil
		}
		if !AtLeast(version, least) {
			return "", fmt.Errorf("%s is version %s, but %s or newer is required", path, version, least)
		}
		return path + ", " + version, nil
	}
}

// AtLeast reports whether version is equal to or newer than least. It ignores further numbers of version. A version
// with a missing or invalid number is too old.
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

// Root checks whether this process runs as root.
func Root(context.Context) (string, error) {
	if id := os.Geteuid(); id != 0 {
		return "", fmt.Errorf("the process runs as user %d", id)
	}
	return "root", nil
}

// Openable checks whether this process can open a file, usually a device, for reading and writing.
//
//failpoint:none it opens the file only to check access
func Openable(path string) func(context.Context) (string, error) {
	return func(context.Context) (string, error) {
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			return "", err
		}
		return path, f.Close()
	}
}

// Given checks whether a driver was configured with an implementation of another driver.
func Given(given bool) func(context.Context) (string, error) {
	return func(context.Context) (string, error) {
		if !given {
			return "", errors.New("not configured")
		}
		return "configured", nil
	}
}

// Authorities checks whether this host has certificates of authorities, which are necessary to verify servers.
func Authorities(context.Context) (string, error) {
	pool, err := x509.SystemCertPool()
	if err == nil && pool.Equal(x509.NewCertPool()) {
		err = errors.New("this host has no certificates")
	}
	if err != nil {
		return "", err
	}
	return "certificates of this host", nil
}

// Room checks whether the disk of a directory, which may not exist yet, has at least `least` free bytes.
func Room(dir string, least int64) func(context.Context) (string, error) {
	return func(context.Context) (string, error) {
		at := Nearest(dir)
		_, free, err := diskspace.Of(at)
		if err != nil {
			return "", err
		}
		if free < least {
			return "", fmt.Errorf("%d MiB free at %s", free>>20, at)
		}
		return fmt.Sprintf("%d GiB free at %s", free>>30, at), nil
	}
}

// Nearest returns the directory, or its nearest existing ancestor.
func Nearest(dir string) string {
	for ; dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if info, err := os.Stat(dir); err == nil && info.IsDir() {
			break
		}
	}
	return dir
}

// ControllersFix is the fix for a missing cgroup controller.
const ControllersFix = "run the node as root; mount -t cgroup2 none /sys/fs/cgroup; remove cgroup_disable= from the kernel's arguments"

// Controllers checks whether the cgroups have all the wanted controllers.
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

// AccountsFix is the fix for missing process users.
const AccountsFix = "run the node as root, with --data below directories that all users can traverse (/var/lib/writ), and without --process-users none"

// Accounts checks whether there are users for processes.
func Accounts(accounts *confine.Accounts) func(context.Context) (string, error) {
	return func(context.Context) (string, error) {
		if accounts == nil {
			return "", errors.New("no users are configured")
		}
		if accounts.Off != nil {
			return "", accounts.Off
		}
		return fmt.Sprintf("%d-%d", accounts.First, accounts.Last), nil
	}
}
