package herodb

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"writ"
	"writ/internal/confine"
	"writ/internal/netns"
	"writ/internal/sleep"
	"writ/sal"
)

// pid identifies a process across a crash: another process that reuses its PID has another start time.
type pid struct {
	PID   int    `json:"pid"`
	Start uint64 `json:"start"` // kernel ticks since boot
	Boot  string `json:"boot"`  // boot ID of the host
}

// instance is a database as engines see it.
type instance struct {
	engine  engine
	own     own
	access  access
	dir     string // databases/NAME
	tree    string // directory of its data
	process pid    // zero if no process serves it
}

// path returns the path of a file of the database.
func (in instance) path(name string) string { return filepath.Join(in.dir, name) }

// how selects the handling of a process that already serves a database.
type how int

const (
	adopt  how = iota // it continues unchanged
	reload            // it applies the record; if the engine cannot, it is replaced
	renew             // it is replaced
)

// Time limits of processes.
const (
	grace   = 30 * time.Second // for a clean end, with all data on disk, before SIGKILL
	minPoll = 2 * time.Millisecond
	maxPoll = 100 * time.Millisecond // largest interval between two checks of a process
)

// serve makes sure that a process serves the database, and records its PID.
func (j *job) serve(ctx context.Context, r *sal.Record[own]) (instance, error) {
	before := r.Own
	in, err := j.ensureProcess(ctx, r, adopt)
	if err == nil && before != r.Own {
		err = j.records().Put(r)
	}
	return in, err
}

// serveAs makes the process serve the database as the record says. The caller must write the record afterwards.
func (j *job) serveAs(ctx context.Context, r *sal.Record[own], how how) error {
	_, err := j.ensureProcess(ctx, r, how)
	return err
}

func (j *job) ensureProcess(ctx context.Context, r *sal.Record[own], how how) (instance, error) {
	in, err := j.instance(r)
	if err != nil {
		return in, err
	}
	if how == renew || how == reload && in.engine.live.reload == nil {
		if err := j.end(ctx, r.Own, grace); err != nil {
			return in, err
		}
		in.process = pid{}
	}
	if in.process == (pid{}) {
		err = j.start(ctx, r, &in)
	} else {
		err = j.refresh(ctx, in, how)
	}
	r.Own.Process = in.process
	return in, err
}

// instance collects the state of a database.
func (j *job) instance(r *sal.Record[own]) (instance, error) {
	in := instance{own: r.Own, dir: j.dir, tree: r.Own.Tree}
	var ok bool
	if in.engine, ok = engineOf(r.Own.Engine); !ok {
		return in, writ.Errorf(writ.CodeDriverMissing,
			"%s is served by %s, which this version of the driver does not know", j.Resource, r.Own.Engine)
	}
	// The tree is not created again here: if it was removed, that would silently replace the data by an empty
	// directory.
	if _, err := os.Stat(r.Own.Tree); errors.Is(err, fs.ErrNotExist) {
		return in, writ.Errorf(writ.CodeDriverRefused, "the data of %s is gone: %s is missing", j.Resource, r.Own.Tree).
			WithHint("it was removed; delete the database and create it again, or restore the directory %s", j.tree())
	}
	var err error
	if in.access, err = j.openAccess(r.Own.Secret); err != nil {
		return in, err
	}
	in.process, err = j.process(r.Own)
	return in, err
}

// refresh makes a running process apply the record.
func (j *job) refresh(ctx context.Context, in instance, how how) error {
	if how == reload {
		if err := j.configure(in); err != nil {
			return err
		}
	}
	if err := j.rebound(in.process, in.own); err != nil {
		return err
	}
	c, err := j.answers(ctx, in)
	if err != nil {
		return err
	}
	defer c.close()
	if how != reload {
		return nil
	}
	j.step("let the engine take over its configuration")
	if err := in.engine.live.reload(ctx, c, in); err != nil {
		return sal.HostError("reconfigure "+j.Resource.String(), err)
	}
	return nil
}

// configure writes the files that the engine reads at its start, or links the data into the directory.
func (j *job) configure(in instance) error {
	if in.engine.configure == nil {
		j.step("link the data")
		err := os.Symlink(in.tree, in.path("data"))
		if err != nil && !errors.Is(err, fs.ErrExist) {
			return sal.HostError("link the data", err)
		}
		return nil
	}
	files := in.engine.configure(in)
	for _, name := range []string{"users.acl", "server.conf"} {
		err := j.write(name, files[name])
		if err == nil && in.own.User != 0 { // a running process reads it again
			err = sal.HandFile(j.in(name), 0, in.own.User, 0o640)
		}
		if err != nil {
			return sal.HostError("write the configuration of "+j.Resource.String(), err)
		}
	}
	return nil
}

// start starts a process for a database without one and waits until it answers.
func (j *job) start(ctx context.Context, r *sal.Record[own], in *instance) error {
	p, err := j.serves(ctx, r.Own)
	if err != nil {
		return err
	}
	if err := j.keepCopy(p, r.Own); err != nil {
		return err
	}
	namespace := ""
	if r.Own.Device != "" {
		if err := j.connect(ctx, r, p.engine); err != nil {
			return err
		}
		in.own = r.Own
		if namespace, _, err = j.namespace(ctx, r); err != nil {
			return err
		}
	}
	if err := j.configure(*in); err != nil {
		return err
	}
	// Children of an ended process may still write and listen. They are ended with their cgroup before files are handed
	// over.
	if err := errors.Join(j.removeCgroup(ctx, r.Own), j.end(ctx, r.Own, 0)); err != nil {
		return err
	}
	if !in.own.Persist && in.own.Phase != restoring {
		if err := j.dropDump(*in); err != nil {
			return err
		}
	}
	if err := inside(namespace, func() error { return listens(in.own.Host, in.own.Port) }); err != nil {
		return j.cannotListen(j.Resource, in.own.Host, in.own.Port, err)
	}
	if err := j.handOver(p, r, in); err != nil {
		return err
	}
	cell, err := j.makeCgroup(in.own)
	if err != nil {
		return err
	}
	cell.Namespace = namespace
	if in.process, err = j.spawn(p, *in, cell); err != nil {
		return err
	}
	c, err := j.answers(ctx, *in)
	if err != nil {
		return err
	}
	c.close()
	return nil
}

// cannotListen returns the error for an address on which a process cannot listen.
func (d *Driver) cannotListen(database writ.ResourceID, host string, port int64, err error) error {
	address := net.JoinHostPort(host, strconv.FormatInt(port, 10))
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return writ.Errorf(writ.CodeDriverFailed, "cannot start %s: another process listens on %s", database, address).
			WithHint("`ss -ltnp 'sport = :%d'` shows which; when it has ended, the database starts", port)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return writ.Errorf(writ.CodeDriverMissing,
			"cannot start %s: this node has no address %s, because its overlay does not run", database, host).
			WithHint("give the database a network, or start mycelium on the node; `writ node show` lists its unmet needs")
	}
	return sal.HostError("listen on "+address, err)
}

// spawn starts the process with the log as its only output.
func (j *job) spawn(p program, in instance, cell confine.Cell) (pid, error) {
	if err := j.trimLog(); err != nil {
		return pid{}, err
	}
	j.step("start the process")
	log, err := os.OpenFile(j.in(logName), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return pid{}, sal.HostError("open the log of "+j.Resource.String(), err)
	}
	defer log.Close()
	args := append([]string{p.path}, p.arguments(in)...)
	started, err := spawn(cell, args, in.tree, log)
	if barred, ok := errors.AsType[*confine.Barred](err); ok {
		return pid{}, writ.Errorf(writ.CodeDriverMissing, "cannot start the process of %s: %w", j.Resource, barred).
			WithHint("put the program where every user may execute it: /usr/local/bin")
	}
	if err != nil {
		return pid{}, sal.HostError("start "+p.path, err)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.children == nil {
		j.children = map[pid]bool{}
	}
	j.children[started] = true
	return started, nil
}

// answers waits until the process of a database answers and returns the connection. A process whose disk is full
// answers with an error, but still serves.
func (j *job) answers(ctx context.Context, in instance) (*client, error) {
	for wait := minPoll; ; wait = min(2*wait, maxPoll) {
		c, err := in.dial(ctx)
		if err == nil {
			_, err = c.ask(ctx, "PING")
			if err == nil || refused(err, "MISCONF") {
				return c, nil
			}
			c.close()
		}
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case refused(err, "WRONGPASS"), refused(err, "NOPERM"):
			return nil, writ.Errorf(writ.CodeDriverRefused, "%s rejects its driver: %w", j.Resource, err).
				WithHint("its users were changed; end its process (%d) to restart it with the right ones",
					in.process.PID)
		case refused(err, "ERR"):
			return nil, writ.Errorf(writ.CodeDriverFailed, "%s does not serve its driver: %w", j.Resource, err).
				WithHint("it may have too many clients; the call is retried")
		case !j.lives(in.process, in.own):
			return nil, j.endedError(in)
		}
		if err := sleep.For(ctx, wait); err != nil {
			return nil, err
		}
	}
}

// dial connects the driver to the process of a database and logs in.
func (in instance) dial(ctx context.Context) (*client, error) {
	var conn net.Conn
	namespace := ""
	if in.own.Device != "" {
		namespace = namespaceOf(in.process)
	}
	err := inside(namespace, func() (err error) {
		d := net.Dialer{Timeout: answerTime}
		conn, err = d.DialContext(ctx, "tcp", net.JoinHostPort(in.own.Host, strconv.FormatInt(in.own.Port, 10)))
		return err
	})
	if err != nil {
		return nil, err
	}
	c := &client{conn: conn, r: bufio.NewReader(conn)}
	if in.engine.login == nil {
		return c, nil
	}
	if _, err := c.ask(ctx, append([]string{"AUTH"}, in.engine.login(in.access)...)...); err != nil {
		c.close()
		return nil, err
	}
	return c, nil
}

// inside calls do in a network namespace; an empty path means the namespace of this process.
func inside(namespace string, do func() error) error {
	if namespace == "" {
		return do()
	}
	leave, err := netns.Enter(namespace)
	if err != nil {
		return err
	}
	defer leave()
	return do()
}

// process returns the process that serves a database: the recorded one, or one that was started but not recorded. It
// returns the zero value if there is none. A child that writes a snapshot has the same arguments and can outlive its
// engine. It serves no clients and is recognised by its session, which belongs to the engine (see spawn).
func (j *job) process(o own) (pid, error) {
	return j.find(o, func(p process) bool { return p.leads })
}

// find returns the recorded process if it lives, otherwise another process of the database that qualifies, or the zero
// value.
func (j *job) find(o own, qualifies func(process) bool) (pid, error) {
	if j.lives(o.Process, o) {
		return o.Process, nil
	}
	all, err := processesWith(j.dir + "/")
	if err != nil {
		return pid{}, sal.HostError("list the processes", err)
	}
	for _, p := range all {
		if qualifies(p) && j.ours(p, o) {
			return p.pid, nil
		}
	}
	return pid{}, nil
}

// lives reports whether a process exists and still belongs to the database. If it seems to belong to another one, it is
// checked again: it may have begun to end, and then the kernel does not return its root directory. A process occupies
// its port until it has ended.
func (j *job) lives(p pid, o own) bool {
	if p == (pid{}) {
		return false
	}
	for range 2 {
		now, err := look(p.PID)
		switch {
		case err != nil || now.pid != p:
			return false
		case now.dead:
			j.reapEnded(p)
			return false
		case now.ending || now.starting || j.ours(now, o):
			return true
		}
	}
	return false
}

// reapEnded reaps an ended process if this driver started it.
func (d *Driver) reapEnded(p pid) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.children[p] {
		delete(d.children, p)
		reap(p.PID)
	}
}

// ours reports whether a process serves the database: it has the name of the engine and a path of the database among
// its arguments, and the user of the record. Arguments can be forged by any process; the user cannot. If the record has
// no engine, any engine and any user match, because such processes are only ended.
func (j *job) ours(p process, o own) bool {
	serves := func(argument string) bool { return filepath.Base(argument) == o.Engine }
	if o.Engine == "" {
		serves = isEngine
	}
	return slices.ContainsFunc(p.args, serves) &&
		slices.ContainsFunc(p.args, func(a string) bool { return strings.HasPrefix(a, j.dir+"/") }) &&
		(o.Engine == "" || confine.RunsAs(p.PID, o.User))
}

// process is the state of a process in /proc.
type process struct {
	pid
	dead     bool     // a zombie: it has ended and was not reaped
	ending   bool     // it has begun to end: it does no work, but occupies its port
	starting bool     // it has no arguments yet
	leads    bool     // it is the leader of its session
	args     []string // nil if it has ended or is ending
}

// end ends every process of a database and its children: with the signal of the engine first, if grace is not zero,
// then with SIGKILL.
func (j *job) end(ctx context.Context, o own, grace time.Duration) error {
	e, ok := engineOf(o.Engine)
	if !ok || e.ends == 0 {
		e.ends = syscall.SIGTERM
	}
	for {
		p, err := j.find(o, func(process) bool { return true })
		if err != nil || p == (pid{}) {
			return err
		}
		j.step("end the process")
		if grace > 0 {
			if err := signal(p, e.ends); err != nil {
				return sal.HostError(fmt.Sprintf("end process %d", p.PID), err)
			}
			if j.gone(ctx, p, o, grace) {
				continue
			}
			if ctx.Err() != nil {
				return ctx.Err()
			}
		}
		if err := signal(p, syscall.SIGKILL); err != nil {
			return sal.HostError(fmt.Sprintf("kill process %d", p.PID), err)
		}
		if !j.gone(ctx, p, o, clearTime) {
			return errors.Join(ctx.Err(), writ.Errorf(writ.CodeDriverFailed,
				"process %d of %s does not end even after SIGKILL", p.PID, j.Resource).
				WithHint("the kernel keeps it, most likely because a disk does not respond"))
		}
	}
}

// gone waits at most most for the end of a process and reports whether it has ended.
func (j *job) gone(ctx context.Context, p pid, o own, most time.Duration) bool {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	for wait := minPoll; j.lives(p, o); wait = min(2*wait, maxPoll) {
		if sleep.For(ctx, wait) != nil {
			return !j.lives(p, o)
		}
	}
	return true
}
