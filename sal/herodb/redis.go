package herodb

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"syscall"
	"time"

	"writ"
	"writ/internal/redisconf"
	"writ/internal/sleep"
)

// redis returns the engine for Redis or a program that is compatible with it.
func redis(name, where, least string) engine {
	return engine{
		name: name, where: where, versionArgs: []string{"--version"}, least: least, ends: syscall.SIGTERM,
		arguments: func(in instance) []string { return []string{in.path("server.conf")} },
		configure: redisFiles,
		login:     func(a access) []string { return []string{driverUser, a.Driver} },
		live:      live{reload: redisReload, hold: redisHold},
	}
}

// driverUser is the user of the driver. It can manage the server but cannot read data.
const driverUser = "writ"

// Rights of the two users. Clients can use all data and inspect the server, but cannot change its memory, users or
// files. They cannot make the server connect to other servers, because it may reach addresses that clients cannot.
const (
	clientRights = "~* &* +@all -@admin -migrate +acl|whoami +config|get +client|list +latency +slowlog"
	driverRights = "-@all +acl|load +client|pause +client|unpause +config|get +config|set +bgsave +info +ping"
)

// redisFiles returns the configuration and the user file. The files contain no usable secret, only SHA-256 hashes of
// passwords.
func redisFiles(in instance) map[string]string {
	var conf strings.Builder
	set := func(name, format string, args ...any) { fmt.Fprintf(&conf, name+" "+format+"\n", args...) }
	set("bind", "%s", in.own.Host)
	set("port", "%d", in.own.Port)
	set("protected-mode", "no") // every login needs a password
	set("daemonize", "no")
	set("supervised", "no")
	set("set-proc-title", "no") // the arguments identify the process
	set("dir", "%s", redisconf.Quote(in.tree))
	set("aclfile", "%s", redisconf.Quote(in.path("users.acl")))
	set("logfile", `""`) // output goes to a file that the driver trims
	set("save", `""`)
	set("stop-writes-on-bgsave-error", "no")
	set("dbfilename", "%s", dumpName)
	set("appendonly", "%s", yesNo(in.own.Persist))
	set("appendfsync", "everysec")
	set("auto-aof-rewrite-percentage", "%s", rewritePercentage)
	set("maxmemory", "%d", maxMemory(in.own.MemoryMiB))
	set("maxmemory-policy", "noeviction")
	users := fmt.Sprintf("user default on #%s %s\nuser %s on #%s %s\n", in.access.SHA256, clientRights, driverUser,
		sum(in.access.Driver), driverRights)
	return map[string]string{"server.conf": conf.String(), "users.acl": users}
}

const (
	// dumpName is the file with all data at one moment: the backup of a database that does not persist.
	dumpName          = "dump.rdb"
	rewritePercentage = "100" // growth of an append-only file before it is rewritten
)

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// maxMemory returns the part of a database's memory for data, in bytes. It leaves a quarter of the memory and at least
// 8 MiB, which is half of the smallest database. The rest is for connections, buffers and pages that change while a
// child writes a snapshot.
func maxMemory(mib int64) int64 { return (mib - max(mib/4, 8)) << 20 }

// redisReload applies memory limit and users.
func redisReload(ctx context.Context, c *client, in instance) error {
	if _, err := c.ask(ctx, "CONFIG", "SET", "maxmemory",
		strconv.FormatInt(maxMemory(in.own.MemoryMiB), 10)); err != nil {
		return fmt.Errorf("set the memory: %w", err)
	}
	if _, err := c.ask(ctx, "ACL", "LOAD"); err != nil {
		return fmt.Errorf("load the users: %w", err)
	}
	return nil
}

// Times of redisHold. A pause that is not renewed ends by itself, so the database accepts writes again if the runner
// dies.
const (
	pauseFor   = 20 * time.Second
	pauseRenew = 5 * time.Second
	quietPoll  = 10 * time.Millisecond
)

// redisHold flushes all acknowledged writes to the files and keeps the files unchanged. A database that does not
// persist writes its data to a new file and continues; a database that persists blocks writers until release is called.
func redisHold(ctx context.Context, c *client, in instance) (release func(), err error) {
	if !in.own.Persist {
		return func() {}, redisDump(ctx, c, in)
	}
	pause := func(ctx context.Context) error {
		_, err := c.ask(ctx, "CLIENT", "PAUSE", strconv.FormatInt(pauseFor.Milliseconds(), 10), "WRITE")
		return err
	}
	if _, err := c.ask(ctx, "CONFIG", "SET", "auto-aof-rewrite-percentage", "0"); err != nil {
		return nil, fmt.Errorf("stop rewrites of the append-only file: %w", err)
	}
	if err := pause(ctx); err != nil {
		return nil, fmt.Errorf("pause writers: %w", err)
	}
	renewing, stop := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{})
	go func() {
		defer close(done)
		for tick := time.NewTicker(pauseRenew); ; {
			select {
			case <-renewing.Done():
				tick.Stop()
				return
			case <-tick.C:
				_ = pause(renewing) // an engine that does not answer does not write either
			}
		}
	}()
	release = func() {
		stop()
		<-done
		after, cancel := context.WithTimeout(context.WithoutCancel(ctx), answerTime)
		defer cancel()
		_, _ = c.ask(after, "CLIENT", "UNPAUSE") // otherwise the pause ends by itself
		_, _ = c.ask(after, "CONFIG", "SET", "auto-aof-rewrite-percentage", rewritePercentage)
	}
	err = redisQuiet(ctx, in, "aof_rewrite_in_progress:0", "aof_rewrite_scheduled:0", "aof_buffer_length:0",
		"aof_last_write_status:ok")
	if err != nil {
		release()
		return nil, err
	}
	return release, nil
}

// redisDump writes all data to dumpName.
func redisDump(ctx context.Context, c *client, in instance) error {
	if _, err := c.ask(ctx, "BGSAVE", "SCHEDULE"); err != nil {
		return fmt.Errorf("write all data: %w", err)
	}
	for {
		state, err := c.info(ctx, "persistence")
		switch {
		case err != nil:
			return fmt.Errorf("wait until all data is written: %w", err)
		case state["rdb_bgsave_in_progress"] == "0" && state["rdb_last_bgsave_status"] != "ok":
			return writ.Errorf(writ.CodeDiskFull, "the engine could not write its data; usually its disk is full").
				WithHint("give it more disk space with a larger size_gib; %s", in.seeLog())
		case state["rdb_bgsave_in_progress"] == "0":
			return nil
		}
		if err := sleep.For(ctx, quietPoll); err != nil {
			return err
		}
	}
}

// redisQuiet waits until INFO has all given field values. It uses its own connection, because redisHold renews the
// pause on its connection.
func redisQuiet(ctx context.Context, in instance, all ...string) error {
	c, err := in.dial(ctx)
	if err != nil {
		return err
	}
	defer c.close()
	for {
		state, err := c.info(ctx, "persistence")
		if err != nil {
			return fmt.Errorf("wait for pending writes: %w", err)
		}
		quiet := true
		for _, field := range all {
			name, want, _ := strings.Cut(field, ":")
			quiet = quiet && state[name] == want
		}
		if quiet {
			return nil
		}
		if state["aof_last_write_status"] == "err" {
			return errFull
		}
		if err := sleep.For(ctx, quietPoll); err != nil {
			return err
		}
	}
}

// errFull is the error of a database whose disk is full.
var errFull = writ.Errorf(writ.CodeDiskFull,
	"the engine cannot write: its disk is full, and it refuses everything that changes data").
	WithHint("give it more disk space with a larger size_gib, or delete data; then it continues by itself")
