package btrfs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"writ"
	"writ/sal"
)

// Room returns an error if a tree with this bound would exceed the project's share of the disk.
func (p *Pool) Room(ctx context.Context, name string, bound sal.Bound) error {
	if err := errors.Join(ctx.Err(), sal.ValidTree(name)); err != nil {
		return err
	}
	release, err := p.reserve(name, bound)
	if err == nil {
		release()
	}
	return err
}

// reserve is Room plus a reservation: the tree counts for the project until release is called. The caller calls it when
// the tree has its limit, or has failed. Without reservations, concurrent calls could exceed the share, and machines
// would see failing disks.
func (p *Pool) reserve(name string, bound sal.Bound) (release func(), err error) {
	none := func() {}
	had, err := boundOf(p.Path(name))
	fresh := errors.Is(err, fs.ErrNotExist) || errors.Is(err, errNoSize)
	if err != nil && !fresh {
		return none, sal.HostError("inspect the tree "+name, err)
	}
	project := cmp.Or(bound.Project, had.Project)
	most := p.share(project)
	if most == 0 || project == "" || !fresh && had.Project == project && grown(had.Bytes, bound.Bytes) == had.Bytes {
		return none, nil // existing trees keep their size, even if the share has shrunk
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	others, err := p.reserved(project, name)
	if err != nil {
		return none, sal.HostError("add up the trees of the project", err)
	}
	if others+bound.Bytes > most {
		return none, writ.Errorf(writ.CodeQuotaExceeded,
			"the project may use %s of this node's disk: it uses %s, and this needs %s more",
			amount(most), amount(others), amount(bound.Bytes)).
			WithHint("request less, delete unused resources of the project, use another node, or give the node's runner a larger --project-disk")
	}
	if p.pending == nil {
		p.pending = map[string]sal.Bound{}
	}
	p.pending[name], p.counts = sal.Bound{Bytes: bound.Bytes, Project: project}, nil
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.pending, name)
		p.counts = nil
	}, nil
}

// reserved returns the bytes that a project may occupy: the bounds of its trees except one, including trees that are
// being made or grow, and its bytes outside the pool.
func (p *Pool) reserved(project writ.ProjectID, but string) (bytes int64, err error) {
	if p.Besides != nil {
		if bytes, err = p.Besides(project); err != nil {
			return 0, err
		}
	}
	err = p.each(func(name string, bound sal.Bound) {
		if name != but && bound.Project == project {
			bytes += bound.Bytes
		}
	})
	return bytes, err
}

// each calls the function for every tree that has, or is about to get, a bound.
func (p *Pool) each(tell func(name string, bound sal.Bound)) error {
	names, err := sal.FileNames(filepath.Join(p.Dir, "trees"))
	if err != nil {
		return err
	}
	for _, name := range names {
		if _, coming := p.pending[name]; coming {
			continue
		}
		bound, err := boundOf(p.Path(name))
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, errNoSize) {
			continue // removed meanwhile, or unfinished
		}
		if err != nil {
			return err
		}
		tell(name, bound)
	}
	for name, bound := range p.pending {
		tell(name, bound)
	}
	return nil
}

// countOf returns the number of trees of a project. It counts the trees of all projects at once, and again after this
// pool has changed a tree.
func (p *Pool) countOf(project writ.ProjectID) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.counts == nil {
		counts := map[writ.ProjectID]int{}
		if err := p.each(func(_ string, bound sal.Bound) { counts[bound.Project]++ }); err != nil {
			return 0, err
		}
		p.counts = counts
		p.sums++
	}
	return p.counts[project], nil
}

// recount invalidates the counts. It is called after any change of the trees.
func (p *Pool) recount() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.counts = nil
}

// share returns the maximum size of all trees of a project; 0 means unlimited.
func (p *Pool) share(project writ.ProjectID) int64 {
	if p.ProjectBytes == nil {
		return 0
	}
	return p.ProjectBytes(project)
}

// shareLimit returns the kernel's limit for a project. It has the same slack as the limits of the trees.
func (p *Pool) shareLimit(project writ.ProjectID) (int64, error) {
	most := p.share(project)
	if most == 0 {
		return 0, nil
	}
	count, err := p.countOf(project)
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
