// Package cgroup bounds what processes take of a host together: memory, processors, the number of processes. It knows both versions of the
// kernel's groups; it must not know what the processes do.
//
// Below the root of a hierarchy, NAME is the directory of somebody's groups and NAME/GROUP one of them. With version 1 each controller has
// a hierarchy, so a group is three directories; with version 2 it is one.
package cgroup

import (
	"crypto/sha256"
	"encoding/hex"
	"path/filepath"
	"sync"
)

// Bounds are what the processes of a group may take together. What is zero is not bounded.
type Bounds struct {
	Memory    int64 // bytes, with what the kernel keeps for them; there is no swap besides
	MilliCPUs int64 // thousandths of a processor, in every tenth of a second
	Weight    int64 // against other groups where processors are short; PerCPU for each processor is fair
	Processes int64 // threads count as well
}

// PerCPU is the weight of one processor, which is also that of everything else that has no group.
const PerCPU = 100

// Stat is what a group has taken, as far as its controllers are there.
type Stat struct {
	Memory    int64 // bytes that it has now
	CPU       int64 // microseconds of processors, since the group was made
	Processes int64 // that it has now, threads counted
	OutOf     int64 // how often one of its processes was killed because the group had no more memory
	Refused   int64 // how often it could have no more processes
	Throttled int64 // in how many tenths of a second it had no more processors
}

// The controllers.
const (
	memory = "memory"
	cpu    = "cpu"
	pids   = "pids"
)

// controllers are all that bound something here.
var controllers = []string{memory, cpu, pids}

// Groups are somebody's groups on this host.
type Groups struct {
	Name string // required: of the directory that has them
	Root string // where groups are mounted; /sys/fs/cgroup if empty

	once sync.Once
	mu   sync.Mutex // held while a directory is made in one that may be taken away because it was empty
	has  hierarchy
}

// Of returns the groups of somebody who keeps what is theirs in a directory. Several of one host, each with a directory of its own, have different
// ones.
func Of(whose, dir string) *Groups {
	sum := sha256.Sum256([]byte(dir))
	return &Groups{Name: "writ-" + whose + "-" + hex.EncodeToString(sum[:4])}
}

// hierarchy is what was found of a host.
type hierarchy struct {
	unified bool
	roots   map[string]string // by controller that can be used; of version 2 they are all the same
	missing error             // why there are none at all
}

func (g *Groups) found() hierarchy {
	g.once.Do(func() { g.has = find(g.root()) })
	return g.has
}

func (g *Groups) root() string {
	if g.Root == "" {
		return "/sys/fs/cgroup"
	}
	return g.Root
}

// Lacks are the controllers that cannot be used on this host, of memory, cpu and pids. With all of them lacking, err says why.
func (g *Groups) Lacks() (lacking []string, err error) {
	h := g.found()
	for _, c := range controllers {
		if h.roots[c] == "" {
			lacking = append(lacking, c)
		}
	}
	return lacking, h.missing
}

// About says in some words what bounds processes, "cgroups" or "nothing".
func (g *Groups) About() string {
	switch h := g.found(); {
	case len(h.roots) == 0:
		return "nothing"
	case h.unified:
		return "cgroups"
	default:
		return "cgroups of version 1"
	}
}

// Path is the directory of a group that has a controller, "" if there is no such controller.
func (g *Groups) path(controller, group string) string {
	root := g.found().roots[controller]
	if root == "" {
		return ""
	}
	return filepath.Join(root, g.Name, group)
}

// tops are the directories of these groups, one for each hierarchy.
func (g *Groups) tops() []string {
	h := g.found()
	var all []string
	for _, c := range controllers {
		if h.roots[c] != "" && (!h.unified || all == nil) {
			all = append(all, filepath.Join(h.roots[c], g.Name))
		}
	}
	return all
}
