// Package initprogram finds the program on a host that becomes the init process of containers. It is independent of how
// the program gets into a container.
package initprogram

import (
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"writ"
)

// Packaged lists the paths of init programs of Debian and Docker, in order of preference.
var Packaged = []string{"/usr/bin/catatonit", "/usr/bin/tini-static", "/usr/libexec/docker/docker-init"}

// Fix is the remedy on a host without an init program.
const Fix = "apt-get install -y catatonit, or name a static program: writ runner --container-init FILE"

// Require is Find with an error for authors of scripts, DRIVER_MISSING. It does not reveal which files of the host have
// which faults.
func Require(named string) (string, error) {
	path, err := Find(named)
	if err != nil {
		return "", writ.Errorf(writ.CodeDriverMissing, "this node has no init program for containers").
			WithHint("omit init, or ask its operator to install the package catatonit; " +
				"`writ doctor` on the node shows the missing requirement")
	}
	return path, nil
}

// Find returns the path of the init program without symbolic links. `named` is a path; "" selects the first valid
// program of Packaged.
func Find(named string) (string, error) {
	paths := Packaged
	if named != "" {
		paths = []string{named}
	}
	invalid := errors.New("not installed")
	for _, path := range paths {
		found, err := check(path)
		if err == nil {
			return found, nil
		}
		if named != "" || !errors.Is(err, fs.ErrNotExist) {
			invalid = err
		}
	}
	return "", invalid
}

// check returns the path of a program without symbolic links. It rejects a program that other users than root can
// change, and a program with libraries, because an image may lack them.
func check(path string) (string, error) {
	if !filepath.IsAbs(path) {
		return "", fmt.Errorf("%s is not an absolute path", path)
	}
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return "", err
	}
	info, err := os.Stat(real)
	if err != nil {
		return "", err
	}
	switch mode := info.Mode(); {
	case !mode.IsRegular():
		return "", fmt.Errorf("%s is not a regular file", path)
	case mode&0o001 == 0:
		return "", fmt.Errorf("%s is not executable for all users", path)
	case !onlyRootChanges(info):
		return "", fmt.Errorf("%s can be changed by other users than root", path)
	}
	for _, dir := range slices.Concat(above(path), above(real)) {
		info, err := os.Stat(dir)
		if err != nil {
			return "", err
		}
		if !onlyRootChanges(info) && info.Mode()&fs.ModeSticky == 0 {
			return "", fmt.Errorf("%s can be replaced: other users than root can change %s", path, dir)
		}
	}
	return real, checkStatic(real)
}

// onlyRootChanges reports whether a file or directory belongs to root and is writable only for root.
func onlyRootChanges(info fs.FileInfo) bool {
	owner, ok := info.Sys().(*syscall.Stat_t)
	return ok && owner.Uid == 0 && info.Mode()&0o022 == 0
}

// above returns the directories above a path.
func above(path string) (dirs []string) {
	for dir := filepath.Dir(path); ; dir = filepath.Dir(dir) {
		dirs = append(dirs, dir)
		if dir == filepath.Dir(dir) {
			return dirs
		}
	}
}

// checkStatic rejects a file that is not a program, and a program with an interpreter, because an image may lack its
// libraries.
func checkStatic(path string) error {
	program, err := elf.Open(path)
	if err != nil {
		return fmt.Errorf("%s is not a program: %w", path, err)
	}
	defer program.Close()
	if slices.ContainsFunc(program.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP }) {
		return fmt.Errorf("%s is not static: it needs libraries, which an image may lack", path)
	}
	return nil
}
