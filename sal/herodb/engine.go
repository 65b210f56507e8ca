package herodb

import (
	"context"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
)

// engine is a program that serves databases: a row of the table engines.
type engine struct {
	name  string // also the name of the program
	where string // the command that installs it, or its source
	// versionArgs make the program print its version; nil if the program has no such option.
	versionArgs []string
	least       string // the oldest supported version; "" means any
	// weak describes the weakness of an engine. A weak engine serves only if Driver.Engines names it.
	weak string
	ipv4 bool // the engine listens on all IPv4 addresses and on no IPv6 address
	// arguments returns the command-line arguments. One of them must be a path in the directory of the instance, which
	// identifies the process. A generated password may begin with a hyphen, so the option and the password must be one
	// argument.
	arguments func(in instance) []string
	// configure returns the configuration files. The files are rewritten before each start. May be nil.
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

// engines is the table of supported engines, in order of preference for scripts that name no engine.
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
