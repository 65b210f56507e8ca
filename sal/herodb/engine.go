package herodb

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"writ"
	"writ/sal"
)

// engine is a program that serves databases: a row of the table engines.
type engine struct {
	name  string // also the name of the program
	where string // the command that installs it, or its source
	// versionArgs make the program print its version; nil if it cannot.
	versionArgs []string
	least       string // the oldest supported version; "" means any
	// weak describes the weakness of an engine. A weak engine serves only if Driver.Engines names it.
	weak string
	ipv4 bool // it listens on all IPv4 addresses and on no IPv6 address
	// arguments returns the command-line arguments. One of them must be a path in the directory of the instance, which
	// identifies the process. A generated password may begin with a hyphen, so it must be in one argument with its
	// option.
	arguments func(in instance) []string
	// configure returns the configuration files. They are rewritten before each start. May be nil.
	configure func(in instance) map[string]string
	login     func(a access) []string // arguments of AUTH; nil if the engine has no login
	ends      syscall.Signal          // signal for a clean end, with all data on disk
	live      live                    // if zero, every change needs a restart
}

// live holds the operations on a running engine.
type live struct {
	reload func(ctx context.Context, c *client, in instance) error // applies the files of configure
	// hold flushes all acknowledged writes and blocks changes of the data directory until release is called.
	hold func(ctx context.Context, c *client, in instance) (release func(), err error)
}

// engines is the table, in the order of preference if a script names no engine.
var engines = []engine{
	{
		name: "herodb", where: "it is built from its source, git.ourworld.tf/herocode/herodb",
		versionArgs: []string{"--version"},
		weak:        "it shows its secret among the arguments of its process and listens on every IPv4 address",
		ipv4:        true, ends: syscall.SIGINT,
		arguments: func(in instance) []string {
			return []string{
				"--dir", in.path("data"), "--port", strconv.FormatInt(in.own.Port, 10),
				"--admin-secret=" + in.access.Secret,
			}
		},
	},
	{
		name: "hero_redis", where: "`cargo install hero_redis --features server`",
		weak: "it shows its secret among the arguments of its process and listens on every IPv4 address",
		ipv4: true, ends: syscall.SIGINT,
		arguments: func(in instance) []string {
			return []string{"--data-dir", in.path("data"), "--socket", in.path("run/socket"), "--port",
				strconv.FormatInt(in.own.Port, 10),
				"--encryption-key=" + in.access.Driver, "--admin-secret=" + in.access.Secret}
		},
		login: func(a access) []string { return []string{a.Secret} },
	},
	redis("redis-server", "`apt-get install -y redis-server`", "6.2"),
	redis("valkey-server", "`apt-get install -y valkey-server` (Debian 13 and later)", "7.2"),
}

func engineOf(name string) (engine, bool) {
	i := slices.IndexFunc(engines, func(e engine) bool { return e.name == name })
	if i < 0 {
		return engine{}, false
	}
	return engines[i], true
}

// isEngine reports whether an argument is the path of an engine.
func isEngine(argument string) bool {
	_, ok := engineOf(filepath.Base(argument))
	return ok
}

// program is an engine on this host.
type program struct {
	engine
	path    string
	version string // "unknown" if the program does not report it
}

// unknownVersion is the version of programs that do not report one.
const unknownVersion = "unknown"

// choose returns the first engine that the script accepts and this host has. Its error (DRIVER_MISSING) has the reason
// for each engine.
func (d *Driver) choose(ctx context.Context, names []string, version string) (program, error) {
	if len(names) == 0 {
		names = d.all()
	}
	var why, where []string
	for _, name := range names {
		p, err := d.program(ctx, name)
		switch {
		case errors.Is(err, exec.ErrNotFound):
			why = append(why, "no "+name)
			where = append(where, name+": "+p.where)
		case err != nil:
			return program{}, err
		case d.refused(p) != "":
			why = append(why, fmt.Sprintf("%s %s, which does not serve here: %s", name, p.version, d.refused(p)))
			if !slices.Contains(d.Offered(), name) {
				where = append(where,
					name+": enable it with writ runner --engines "+strings.Join(append(slices.Clone(d.Offered()), name), ","))
			}
		case !(writ.Engine{Version: p.version}).IsVersion(version):
			why = append(why, fmt.Sprintf("%s %s instead of %s", name, p.version, version))
		default:
			return p, nil
		}
	}
	err := writ.Errorf(writ.CodeDriverMissing, "no engine for the database: this node has %s", strings.Join(why, "; "))
	if len(where) > 0 {
		return program{}, err.WithHint("%s", strings.Join(where, "; "))
	}
	return program{}, err.WithHint("ask for another engine or version, or for another node")
}

// program finds an engine on this host. It returns exec.ErrNotFound if the program is missing, together with the row of
// the table.
func (d *Driver) program(ctx context.Context, name string) (program, error) {
	e, ok := engineOf(name)
	if !ok {
		return program{}, writ.Errorf(writ.CodeDriverMissing, "unknown engine %s", name)
	}
	look := d.Look
	if look == nil {
		look = exec.LookPath
	}
	path, err := look(name)
	if err != nil {
		return program{engine: e}, exec.ErrNotFound
	}
	version, err := d.versionOf(ctx, e, path)
	return program{e, path, version}, err
}

// versionGuard ends a program that hangs when asked for its version.
const versionGuard = 10 * time.Second

var versionPattern = regexp.MustCompile(`(?:^|[ =v])([0-9]+\.[0-9]+(?:\.[0-9]+)*)`)

// versionOf returns the version of a program. The result is cached until the file changes.
func (d *Driver) versionOf(ctx context.Context, e engine, path string) (string, error) {
	if e.versionArgs == nil {
		return unknownVersion, nil
	}
	info, err := os.Stat(path)
	if err != nil {
		return "", sal.HostError("inspect "+path, err)
	}
	key := fmt.Sprint(path, info.Size(), info.ModTime().UnixNano())
	d.mu.Lock()
	known, ok := d.versions[key]
	d.mu.Unlock()
	if ok {
		return known, nil
	}
	ctx, cancel := context.WithTimeout(ctx, versionGuard)
	defer cancel()
	said, err := exec.CommandContext(ctx, path, e.versionArgs...).CombinedOutput()
	if err != nil {
		return "", sal.HostError("ask "+path+" for its version", errors.Join(ctx.Err(), err))
	}
	m := versionPattern.FindSubmatch(bytes.TrimSpace(said))
	if m == nil {
		return unknownVersion, nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.versions == nil {
		d.versions = map[string]string{}
	}
	d.versions[key] = string(m[1])
	return string(m[1]), nil
}

// serves returns the program for an existing database: the host's own if it has the version of the database, otherwise
// the copy that the driver kept. Thus only a script changes the version of a database.
func (d *Driver) serves(ctx context.Context, o own) (program, error) {
	p, err := d.program(ctx, o.Engine)
	if err == nil && p.version == o.Version {
		return p, nil
	}
	kept := d.copyPath(o)
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

// copyPath returns the path for the copy of a database's program.
func (d *Driver) copyPath(o own) string {
	return filepath.Join(d.Dir, "engines", o.Engine+"-"+o.Version, o.Engine)
}

// keepCopy copies the program of a database, in case the host's version changes.
func (d *Driver) keepCopy(p program, o own) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	to := d.copyPath(o)
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
		err = sal.MakeDir(filepath.Dir(to))
	}
	if err == nil {
		d.step("copy the engine")
		err = writeProgram(to+".tmp", text)
	}
	if err == nil {
		err = os.Rename(to+".tmp", to)
	}
	if err == nil {
		err = sal.SyncDir(filepath.Dir(to))
	}
	if err != nil {
		return sal.HostError("keep a copy of "+p.path, err)
	}
	return nil
}

// writeProgram writes an executable file and syncs it, because a partial program might be used when the host has none.
//
//failpoint:none the caller names the write
func writeProgram(path string, text []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o700)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Sync(), f.Close())
}

// forgetCopies removes copies of programs that no database uses, apart from the one that is being deleted.
func (d *Driver) forgetCopies(deleted writ.ResourceID) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	records, damaged, err := d.records().List()
	if err != nil || len(damaged) > 0 { // a damaged record may need any copy
		return err
	}
	dir := filepath.Join(d.Dir, "engines")
	kept, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return sal.HostError("list the copies of engines", err)
	}
	for _, k := range kept {
		path := filepath.Join(dir, k.Name())
		if slices.ContainsFunc(records, func(r *sal.Record[own]) bool {
			return r.Resource != deleted && filepath.Dir(d.copyPath(r.Own)) == path
		}) {
			continue
		}
		d.step("remove the copy of an engine")
		if err := os.RemoveAll(path); err != nil {
			return sal.HostError("remove "+path, err)
		}
	}
	return nil
}
