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

// Room returns an error if a tree of such a bound would let a project have more than its share of the disk.
func (p *Pool) Room(ctx context.Context, name string, bound sal.Bound) error {
	if err := errors.Join(ctx.Err(), sal.ValidTree(name)); err != nil {
		return err
	}
	release, err := p.promise(name, bound)
	if err == nil {
		release()
	}
	return err
}

// promise is Room that lasts: until the caller says so, which is when the tree has its bound or never gets it, it counts for the project.
// Without that the sizes of a project could be more than it may have, and machines would meet the bound as disks that fail.
func (p *Pool) promise(name string, bound sal.Bound) (release func(), err error) {
	none := func() {}
	had, err := boundOf(p.Path(name))
	fresh := errors.Is(err, fs.ErrNotExist) || errors.Is(err, errNoSize)
	if err != nil && !fresh {
		return none, sal.HostError("look at the tree "+name, err)
	}
	project := cmp.Or(bound.Project, had.Project)
	most := p.share(project)
	if most == 0 || project == "" || !fresh && had.Project == project && grown(had.Bytes, bound.Bytes) == had.Bytes {
		return none, nil // what it has it keeps, also if the share is smaller by now
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	others, _, err := p.promised(project, name)
	if err != nil {
		return none, sal.HostError("add up what the project has", err)
	}
	if others+bound.Bytes > most {
		return none, writ.Errorf(writ.CodeQuotaExceeded, "the project may have %s of this node's disk: its other volumes and databases have %s, and this one is to have %s",
			amount(most), amount(others), amount(bound.Bytes)).
			WithHint("ask for less, delete what the project needs no more, use another node, or give the node's runner a larger --project-disk")
	}
	if p.coming == nil {
		p.coming = map[string]sal.Bound{}
	}
	p.coming[name] = sal.Bound{Bytes: bound.Bytes, Project: project}
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.coming, name)
	}, nil
}

// promised is how much the trees of a project but one may hold together, also those that are just being made or grow, and how many they are.
func (p *Pool) promised(project writ.ProjectID, but string) (bytes int64, count int, err error) {
	names, err := sal.FileNames(filepath.Join(p.Dir, "trees"))
	if err != nil {
		return 0, 0, err
	}
	add := func(name string, bound sal.Bound) {
		if name != but && bound.Project == project {
			bytes += bound.Bytes
			count++
		}
	}
	for _, name := range names {
		if _, coming := p.coming[name]; coming {
			continue
		}
		bound, err := boundOf(p.Path(name))
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, errNoSize) {
			continue // it goes, or never came
		}
		if err != nil {
			return 0, 0, err
		}
		add(name, bound)
	}
	for name, bound := range p.coming {
		add(name, bound)
	}
	return bytes, count, nil
}

// share is how much the trees of a project may hold together; 0 is unbounded.
func (p *Pool) share(project writ.ProjectID) int64 {
	if p.ProjectBytes == nil {
		return 0
	}
	return p.ProjectBytes(project)
}

// shareLimit is what the kernel is told to let a project have. As a tree may be charged with more than it holds, so may they all be.
func (p *Pool) shareLimit(project writ.ProjectID) (int64, error) {
	most := p.share(project)
	if most == 0 {
		return 0, nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	_, count, err := p.promised(project, "")
	return most + most/slackShare + int64(max(1, count))*slackBytes, err
}

// amount writes bytes as people read them.
func amount(bytes int64) string {
	if bytes%(1<<30) == 0 {
		return fmt.Sprintf("%d GiB", bytes>>30)
	}
	if bytes < 1<<30 {
		return fmt.Sprintf("%d MiB", (bytes+1<<20-1)>>20)
	}
	return fmt.Sprintf("%.1f GiB", float64(bytes)/(1<<30))
}
