// Package cgroup limits the memory, the CPUs and the number of processes of a group of processes. It supports both
// versions of control groups; it must not know the purpose of the processes.
//
// Below the root of a hierarchy, NAME is the directory of a driver's groups and NAME/GROUP one group. In version 1 each
// controller has its own hierarchy, so a group has three directories; in version 2 it has one.
package cgroup

import (
	"crypto/sha256"
	"encoding/hex"
	"path/filepath"
	"sync"
)

// Bounds are limits for all processes of a group together. Zero means unlimited.
type Bounds struct {
	Memory    int64 // bytes, including kernel memory; there is no swap in addition
	MilliCPUs int64 // thousandths of a CPU, measured over 100 ms
	Weight    int64 // share of contended CPUs; PerCPU for each CPU is fair
	Processes int64 // processes and threads
}

// PerCPU is the weight of one CPU, and the weight of everything without a group.
const PerCPU = 100

// Stat is the resource use of a group. Values of missing controllers are zero.
type Stat struct {
	Memory    int64 // current bytes
	CPU       int64 // microseconds of CPU time since the group was made
	Processes int64 // current processes and threads
	OutOf     int64 // processes that were killed at the memory limit
	Refused   int64 // rejected new processes
	Throttled int64 // number of 100 ms periods without CPU time left
}

// Controllers.
const (
	memory = "memory"
	cpu    = "cpu"
	pids   = "pids"
)

// controllers are all controllers in use.
var controllers = []string{memory, cpu, pids}

// Groups are the groups of a driver on this host.
type Groups struct {
	Name string // required: name of their directory
	Root string // mount point of cgroups; "" means /sys/fs/cgroup

	once sync.Once
	mu   sync.Mutex // locked while a directory is made, so that its empty parent is not removed meanwhile
	has  hierarchy
}

// Of returns the groups of a driver whose files are in a directory. Drivers with different directories have different
// groups.
func Of(whose, dir string) *Groups {
	sum := sha256.Sum256([]byte(dir))
	return &Groups{Name: "writ-" + whose + "-" + hex.EncodeToString(sum[:4])}
}

// hierarchy describes the cgroups of a host.
type hierarchy struct {
	unified bool
	roots   map[string]string // root by usable controller; all the same in version 2
	missing error             // why roots is empty
}

func (g *Groups) detected() hierarchy {
	g.once.Do(func() { g.has = detect(g.root()) })
	return g.has
}

func (g *Groups) root() string {
	if g.Root == "" {
		return "/sys/fs/cgroup"
	}
	return g.Root
}

// Lacks returns the controllers among memory, cpu and pids that this host cannot use. If all are missing, err is the
// reason.
func (g *Groups) Lacks() (lacking []string, err error) {
	h := g.detected()
	for _, c := range controllers {
		if h.roots[c] == "" {
			lacking = append(lacking, c)
		}
	}
	return lacking, h.missing
}

// About returns a short description of the limits: "cgroups", "cgroups of version 1" or "nothing".
func (g *Groups) About() string {
	switch h := g.detected(); {
	case len(h.roots) == 0:
		return "nothing"
	case h.unified:
		return "cgroups"
	default:
		return "cgroups of version 1"
	}
}

// path returns the directory of a group for a controller, or "" if the controller is missing.
func (g *Groups) path(controller, group string) string {
	root := g.detected().roots[controller]
	if root == "" {
		return ""
	}
	return filepath.Join(root, g.Name, group)
}

// topDirs returns the directories of these groups, one for each hierarchy.
func (g *Groups) topDirs() []string {
	h := g.detected()
	var all []string
	for _, c := range controllers {
		if h.roots[c] != "" && (!h.unified || all == nil) {
			all = append(all, filepath.Join(h.roots[c], g.Name))
		}
	}
	return all
}
