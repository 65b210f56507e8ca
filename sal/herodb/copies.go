package herodb

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"writ"
	"writ/sal"
)

// copies manages the driver's copies of engine programs for existing databases.
type copies struct {
	dir  string
	mu   *sync.Mutex // guards dir
	step func(name string)
}

func (j *job) copies() copies { return copies{filepath.Join(j.Dir, "engines"), &j.copying, j.step} }

// program returns the program for an existing database: the host's program if it has the version of the database,
// otherwise the driver's copy. Thus only a script changes the version of a database.
func (c copies) program(ctx context.Context, host *offer, o own) (program, error) {
	p, err := host.program(ctx, o.Engine)
	if err == nil && p.version == o.Version {
		return p, nil
	}
	kept := c.path(o)
	if _, stat := os.Stat(kept); stat == nil {
		return program{p.engine, kept, o.Version}, nil
	}
	there := "does not have it"
	if err == nil {
		there = "has " + p.version
	}
	return program{}, writ.Errorf(writ.CodeDriverMissing, "the database is served by %s %s, and the node %s", o.Engine,
		o.Version, there).
		WithHint("install that version again, or ask for another one with herodb.create")
}

// path returns the path for the copy of a database's program.
func (c copies) path(o own) string {
	return filepath.Join(c.dir, o.Engine+"-"+o.Version, o.Engine)
}

// keep copies the program of a database, in case the host's version changes.
func (c copies) keep(p program, o own) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	to := c.path(o)
	from, err := os.Stat(p.path)
	if err != nil {
		return sal.HostError("inspect "+p.path, err)
	}
	if there, err := os.Stat(to); err == nil &&
		(there.Size() == from.Size() && !from.ModTime().After(there.ModTime()) || p.path == to) {
		return nil
	}
	text, err := os.ReadFile(p.path)
	if err == nil {
		c.step("copy the engine")
		err = sal.WriteFile(to, 0o700, text)
	}
	if err != nil {
		return sal.HostError("keep a copy of "+p.path, err)
	}
	return nil
}

// forget removes the copies that no database except `deleted` uses. It keeps all copies if a record is damaged.
func (c copies) forget(records *sal.Records[own], deleted writ.ResourceID) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	all, damaged, err := records.List()
	if err != nil || len(damaged) > 0 { // its database may need any of the copies
		return err
	}
	kept, err := os.ReadDir(c.dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return sal.HostError("list the copies of engines", err)
	}
	for _, k := range kept {
		path := filepath.Join(c.dir, k.Name())
		if slices.ContainsFunc(all, func(r *sal.Record[own]) bool {
			return r.Resource != deleted && filepath.Dir(c.path(r.Own)) == path
		}) {
			continue
		}
		c.step("remove the copy of an engine")
		if err := os.RemoveAll(path); err != nil {
			return sal.HostError("remove "+path, err)
		}
	}
	return nil
}
