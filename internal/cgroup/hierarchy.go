package cgroup

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
)

// Controllers.
const (
	memory = "memory"
	cpu    = "cpu"
	pids   = "pids"
)

// controllers are all controllers in use.
var controllers = []string{memory, cpu, pids}

// hierarchy describes the cgroups of a host.
type hierarchy struct {
	unified bool
	roots   map[string]string // root by usable controller; all the same in version 2
	missing error             // why roots is empty
}

// path returns a directory for a controller, or "" if the controller is missing.
func (h hierarchy) path(controller, driver, group string) string {
	if h.roots[controller] == "" {
		return ""
	}
	return filepath.Join(h.roots[controller], driver, group)
}

// distinct returns the roots, one for each hierarchy.
func (h hierarchy) distinct() (all []string) {
	for _, c := range controllers {
		if h.roots[c] != "" && (!h.unified || all == nil) {
			all = append(all, h.roots[c])
		}
	}
	return all
}

// defaultRoot is the mount point of cgroups.
const defaultRoot = "/sys/fs/cgroup"

// detect detects the usable controllers. It leaves no changes.
func detect(root string) hierarchy {
	if runtime.GOOS != "linux" {
		return hierarchy{missing: errors.New("only Linux has groups")}
	}
	offered, err := os.ReadFile(filepath.Join(root, "cgroup.controllers"))
	if err == nil {
		return findUnified(root, strings.Fields(string(offered)))
	}
	h := hierarchy{roots: map[string]string{}, missing: errors.New("cannot make a group below " + root)}
	for _, c := range controllers {
		at := filepath.Join(root, c)
		if _, err := os.Stat(filepath.Join(at, "cgroup.procs")); err != nil {
			continue
		}
		if err := probe(at); err != nil {
			h.missing = err
			continue
		}
		h.roots[c] = at
	}
	if len(h.roots) > 0 {
		h.missing = nil
	}
	return h
}

// findUnified detects the controllers of version 2 that the root delegates or can delegate. The host's own root can
// always delegate. The root of a container can delegate only while it contains no process, so its delegation must have
// been set up before.
func findUnified(root string, offered []string) hierarchy {
	h := hierarchy{unified: true, roots: map[string]string{}}
	if h.missing = probe(root); h.missing != nil {
		return h
	}
	_, inner := os.Stat(filepath.Join(root, "cgroup.type")) // missing in the host's own root
	handed, err := os.ReadFile(filepath.Join(root, control))
	for _, c := range controllers {
		given := err == nil && slices.Contains(strings.Fields(string(handed)), c)
		if slices.Contains(offered, c) && (given || inner != nil) {
			h.roots[c] = root
		}
	}
	if len(h.roots) == 0 {
		h.missing = fmt.Errorf("%s delegates no controller", root)
	}
	return h
}

// control is the file that lists the controllers which the groups in a directory may use. It exists only in version 2.
const control = "cgroup.subtree_control"

// probe returns an error if no group can be made in a directory.
func probe(dir string) error {
	made, err := os.MkdirTemp(dir, "writ-probe-")
	if err != nil {
		return err
	}
	return syscall.Rmdir(made)
}

// delegate delegates the controllers of version 2 to the groups of a directory.
func (h hierarchy) delegate(dir string) error {
	if !h.unified {
		return nil
	}
	path := filepath.Join(dir, control)
	there, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var more []string
	for _, c := range controllers {
		if h.roots[c] != "" && !slices.Contains(strings.Fields(string(there)), c) {
			more = append(more, "+"+c)
		}
	}
	if more == nil {
		return nil
	}
	return os.WriteFile(path, []byte(strings.Join(more, " ")), 0)
}
