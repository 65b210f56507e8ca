package herodb

import (
	"context"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"writ"
	"writ/internal/lazyregexp"
	"writ/sal"
)

// hostName matches the host names of databases.
var hostName = lazyregexp.New(`^h[a-z2-7]{10}$`)

// Orphans returns damaged records, and processes, directories, trees, cgroups and namespaces of databases without a
// record.
func (d *Driver) Orphans(ctx context.Context) ([]sal.Orphan, error) {
	records, damaged, err := d.records().List()
	if err != nil {
		return nil, err
	}
	known := func(name string) bool {
		return slices.ContainsFunc(records, func(r *sal.Record[own]) bool { return r.Resource.HostName() == name }) ||
			slices.ContainsFunc(damaged, func(r sal.Damaged) bool { return r.HostName == name })
	}
	all := sal.DamagedOrphans(damaged)
	add := func(kind, host, name, remedy string) {
		if hostName.MatchString(host) && !known(host) {
			all = append(all, sal.Orphan{Kind: kind, Name: name, Of: host, Remedy: remedy})
		}
	}
	running, err := processesWith(d.Dir + "/")
	if err != nil {
		return nil, sal.HostError("list the processes", err)
	}
	for _, p := range running {
		if host, ok := databaseOf(d.Dir, p); ok {
			add("process", host, strconv.Itoa(p.PID), sal.Command("kill", strconv.Itoa(p.PID)))
		}
	}
	dir := filepath.Join(d.Dir, "databases")
	dirs, err := sal.FileNames(dir)
	if err != nil {
		return nil, err
	}
	for _, name := range dirs {
		path := filepath.Join(dir, name)
		add("directory", name, path, sal.Command("rm", "-r", path))
	}
	groups, err := d.groups().All()
	if err != nil {
		return nil, sal.HostError("list the groups of databases", err)
	}
	for _, name := range slices.Sorted(maps.Keys(groups)) {
		add("cgroup", name, groups[name], sal.Command("rmdir", groups[name]))
	}
	trees, err := d.Trees.List(ctx)
	if err != nil {
		return nil, err
	}
	for _, tree := range trees {
		add("tree", tree, tree, d.Trees.Remedy(tree))
	}
	if d.Networks == nil {
		return all, nil
	}
	owners, err := d.Networks.Owners(ctx)
	for _, o := range owners {
		if o.Resource.Kind == writ.KindHeroDB {
			add("namespace", o.Resource.HostName(), o.Resource.String(), "")
		}
	}
	return all, err
}

// databaseOf returns the host name of the database that a process serves or served. The process is recognized by its
// arguments, which contain the name of an engine and a path below the database's directory.
func databaseOf(dir string, p process) (host string, ok bool) {
	if !slices.ContainsFunc(p.args, isEngine) {
		return "", false
	}
	for _, a := range p.args {
		if rest, ok := strings.CutPrefix(a, filepath.Join(dir, "databases")+"/"); ok {
			host, _, _ = strings.Cut(rest, "/")
			return host, true
		}
	}
	return "", false
}
