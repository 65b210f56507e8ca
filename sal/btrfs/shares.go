package btrfs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"sync"

	"writ"
	"writ/sal"
)

// shares limits the disk space that the trees of a project may use together. Trees that are being created or grown
// count too.
type shares struct {
	trees   layout
	most    func(writ.ProjectID) int64          // maximum size of all trees of a project; 0 means unlimited; may be nil
	outside func(writ.ProjectID) (int64, error) // bytes of a project outside the pool; may be nil

	mu      sync.Mutex             // guards the fields below
	pending map[string]sal.Bound   // trees that are being created or grown
	counts  map[writ.ProjectID]int // trees with a limit per project, including pending ones; nil means unknown
	sums    int                    // number of recounts, for tests
}

// Room returns QUOTA_EXCEEDED if a tree with this bound would exceed the project's share of the disk.
func (s *shares) Room(ctx context.Context, name string, bound sal.Bound) error {
	if err := errors.Join(ctx.Err(), sal.ValidTree(name)); err != nil {
		return err
	}
	release, err := s.reserve(name, bound)
	if err == nil {
		release()
	}
	return err
}

// reserve is Room plus a reservation: the tree counts towards the share of the project until release is called. The
// caller calls release when the tree has its limit, or when its creation has failed. Without reservations, concurrent
// calls could exceed the share, and writes to the disks of machines would fail.
func (s *shares) reserve(name string, bound sal.Bound) (release func(), err error) {
	none := func() {}
	had, err := boundOf(s.trees.Path(name))
	fresh := errors.Is(err, fs.ErrNotExist) || errors.Is(err, errNoSize)
	if err != nil && !fresh {
		return none, sal.HostError("inspect the tree "+name, err)
	}
	project := cmp.Or(bound.Project, had.Project)
	most := s.limit(project)
	if most == 0 || project == "" || !fresh && had.Project == project && grown(had.Bytes, bound.Bytes) == had.Bytes {
		return none, nil // existing trees keep their size, even if the share has shrunk
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	others, err := s.reserved(project, name)
	if err != nil {
		return none, sal.HostError("add up the trees of the project", err)
	}
	if others+bound.Bytes > most {
		return none, writ.Errorf(writ.CodeQuotaExceeded,
			"the project may use %s of this node's disk: it uses %s, and this needs %s more",
			amount(most), amount(others), amount(bound.Bytes)).
			WithHint("request less, delete unused resources of the project, use another node, or give the node's runner a larger --project-disk")
	}
	if s.pending == nil {
		s.pending = map[string]sal.Bound{}
	}
	s.pending[name], s.counts = sal.Bound{Bytes: bound.Bytes, Project: project}, nil
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.pending, name)
		s.counts = nil
	}, nil
}

// reserved returns the bytes that a project may occupy. These are the bounds of its trees, except the tree `but`, and
// its bytes outside the pool. Trees that are being created or grown count with their new bound.
func (s *shares) reserved(project writ.ProjectID, but string) (bytes int64, err error) {
	if s.outside != nil {
		if bytes, err = s.outside(project); err != nil {
			return 0, err
		}
	}
	err = s.each(func(name string, bound sal.Bound) {
		if name != but && bound.Project == project {
			bytes += bound.Bytes
		}
	})
	return bytes, err
}

// each calls `do` for every tree that has a bound or is about to get it.
func (s *shares) each(do func(name string, bound sal.Bound)) error {
	names, err := sal.FileNames(s.trees.Path(""))
	if err != nil {
		return err
	}
	for _, name := range names {
		if _, coming := s.pending[name]; coming {
			continue
		}
		bound, err := boundOf(s.trees.Path(name))
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, errNoSize) {
			continue // removed meanwhile, or unfinished
		}
		if err != nil {
			return err
		}
		do(name, bound)
	}
	for name, bound := range s.pending {
		do(name, bound)
	}
	return nil
}

// count returns the number of trees of a project. It counts the trees of all projects in one pass, and uses the result
// until a tree changes.
func (s *shares) count(project writ.ProjectID) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.counts == nil {
		counts := map[writ.ProjectID]int{}
		if err := s.each(func(_ string, bound sal.Bound) { counts[bound.Project]++ }); err != nil {
			return 0, err
		}
		s.counts = counts
		s.sums++
	}
	return s.counts[project], nil
}

// invalidate forgets the counts. It is called after any change of the trees.
func (s *shares) invalidate() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counts = nil
}

// limit returns the maximum size of all trees of a project; 0 means unlimited.
func (s *shares) limit(project writ.ProjectID) int64 {
	if s.most == nil {
		return 0
	}
	return s.most(project)
}

// kernelLimit returns the kernel's limit for a project. It has the same slack as the limits of the trees.
func (s *shares) kernelLimit(project writ.ProjectID) (int64, error) {
	most := s.limit(project)
	if most == 0 {
		return 0, nil
	}
	count, err := s.count(project)
	return most + most/slackShare + int64(max(1, count))*slackBytes, err
}

// amount formats bytes for people.
func amount(bytes int64) string {
	if bytes%(1<<30) == 0 {
		return fmt.Sprintf("%d GiB", bytes>>30)
	}
	if bytes < 1<<30 {
		return fmt.Sprintf("%d MiB", (bytes+1<<20-1)>>20)
	}
	return fmt.Sprintf("%.1f GiB", float64(bytes)/(1<<30))
}
