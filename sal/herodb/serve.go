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

// pid is a process, as it is known again after a crash: another one that got its number has started at another time.
type pid struct {
	PID   int    `json:"pid"`
	Start uint64 `json:"start"` // in ticks of the kernel since it booted
	Boot  string `json:"boot"`  // which boot of the host
}

// instance is a database as engines see it.
type instance struct {
	engine  engine
	own     own
	access  access
	dir     string // databases/NAME
	tree    string // where its data is
	process pid    // the zero value while none serves it
}

// path is the path of a file of the database.
func (in instance) path(name string) string { return filepath.Join(in.dir, name) }

// how says what becomes of a process that serves a database already.
type how int

const (
	adopt  how = iota // it goes on
	reload            // it takes over what the record says; if it cannot, it is replaced
	renew             // another one takes its place
)

// Times of processes.
const (
	grace     = 30 * time.Second // to end with everything on disk, before it is killed
	firstLook = 2 * time.Millisecond
	lastLook  = 100 * time.Millisecond // between two looks whether a process has started or ended
)

// serve makes sure that a process serves the database, and writes down which.
func (j *job) serve(ctx context.Context, r *sal.Record[own]) (instance, error) {
	before := r.Own
	in, err := j.brought(ctx, r, adopt)
	if err == nil && before != r.Own {
		err = j.records().Put(r)
	}
	return in, err
}

// bring makes the process serve the database as the record says. Whoever calls writes the record then.
func (j *job) bring(ctx context.Context, r *sal.Record[own], how how) error {
	_, err := j.brought(ctx, r, how)
	return err
}

func (j *job) brought(ctx context.Context, r *sal.Record[own], how how) (instance, error) {
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

// instance gathers what there is of a database.
func (j *job) instance(r *sal.Record[own]) (instance, error) {
	in := instance{own: r.Own, dir: j.dir, tree: r.Own.Tree}
	var ok bool
	if in.engine, ok = engineOf(r.Own.Engine); !ok {
		return in, writ.Errorf(writ.CodeDriverMissing, "%s is served by %s, which this version of the driver does not know", j.Resource, r.Own.Engine)
	}
	// A tree is made once. To make it again is no way to find it: one that somebody removed would be there again, and empty.
	if _, err := os.Stat(r.Own.Tree); errors.Is(err, fs.ErrNotExist) {
		return in, writ.Errorf(writ.CodeDriverRefused, "the data of %s is gone: there is no %s", j.Resource, r.Own.Tree).
			WithHint("it was removed; delete the database and make it anew, or put the directory %s back", j.tree())
	}
	var err error
	if in.access, err = j.openAccess(r.Own.Secret); err != nil {
		return in, err
	}
	in.process, err = j.process(r.Own)
	return in, err
}

// refresh makes a process that serves take over what is new.
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
		return sal.HostError("change "+j.Resource.String()+" while it serves", err)
	}
	return nil
}

// configure writes the files that the engine reads at its start, and leads from the directory to the data.
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
		if err == nil && in.own.User != 0 { // one that runs reads it anew
			err = sal.HandFile(j.in(name), 0, in.own.User, 0o640)
		}
		if err != nil {
			return sal.HostError("write the configuration of "+j.Resource.String(), err)
		}
	}
	return nil
}

// start starts a process for a database that has none, and returns when it answers.
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
	// What a process left behind that ended ends with its group: it may write, and listen, and must do neither while files are handed over.
	if err := errors.Join(j.unfence(ctx, r.Own), j.end(ctx, r.Own, 0)); err != nil {
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
	cell, err := j.fence(in.own)
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

// cannotListen says why nobody can listen on an address.
func (d *Driver) cannotListen(database writ.ResourceID, host string, port int64, err error) error {
	address := net.JoinHostPort(host, strconv.FormatInt(port, 10))
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return writ.Errorf(writ.CodeDriverFailed, "cannot start %s: another process listens on %s", database, address).
			WithHint("`ss -ltnp 'sport = :%d'` shows which; when it has ended, the database starts", port)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return writ.Errorf(writ.CodeDriverMissing, "cannot start %s: this node has no address %s, because its overlay does not run", database, host).
			WithHint("give the database a network, or start mycelium on the node; `writ node show` says what it lacks")
	}
	return sal.HostError("listen on "+address, err)
}

// spawn starts the process, with its log as all that it may print to.
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

// answers waits until the process of a database answers, and returns the connection on which it did. A process that has no room on disk
// answers that; it serves all the same.
func (j *job) answers(ctx context.Context, in instance) (*client, error) {
	for wait := firstLook; ; wait = min(2*wait, lastLook) {
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
			return nil, writ.Errorf(writ.CodeDriverRefused, "%s does not let its driver in: %w", j.Resource, err).
				WithHint("its users were changed; end its process (%d), then it is started with the right ones", in.process.PID)
		case refused(err, "ERR"):
			return nil, writ.Errorf(writ.CodeDriverFailed, "%s does not serve its driver: %w", j.Resource, err).
				WithHint("it may have too many clients; the call is tried again")
		case !j.lives(in.process, in.own):
			return nil, j.died(in)
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

// inside does something in a network namespace; an empty path is that of this process.
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

// process returns the process that serves a database, the zero value if there is none: the one of the record, or one that was started
// and never written down. A child that an engine started to write a snapshot has the same arguments and can outlive it; it serves nobody, and
// is known by its session, which is the engine's (see spawn).
func (j *job) process(o own) (pid, error) {
	return j.find(o, func(p process) bool { return p.leads })
}

// find returns the process of the record if it lives, or another one of the database that qualifies; the zero value if there is none.
func (j *job) find(o own, qualifies func(process) bool) (pid, error) {
	if j.lives(o.Process, o) {
		return o.Process, nil
	}
	all, err := processesWith(j.dir + "/")
	if err != nil {
		return pid{}, sal.HostError("look through the processes", err)
	}
	for _, p := range all {
		if qualifies(p) && j.ours(p, o) {
			return p.pid, nil
		}
	}
	return pid{}, nil
}

// lives reports whether a process is there and still the one that serves the database. One that seems to be another's is looked at again: it may
// have begun to end since, and then the kernel no longer tells its root directory. It has its port until it has ended.
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
			j.bury(p)
			return false
		case now.ending || now.starting || j.ours(now, o):
			return true
		}
	}
	return false
}

// bury lets a process go that has ended, if this driver started it: nobody else does while the runner lives.
func (d *Driver) bury(p pid) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.children[p] {
		delete(d.children, p)
		reap(p.PID)
	}
}

// ours reports whether a process has the name of the engine and a path of the database among its arguments, which anybody can give himself,
// and is the user of the record. If the record does not tell the engine any more, any engine and any user will do: whoever says so ends.
func (j *job) ours(p process, o own) bool {
	serves := func(argument string) bool { return filepath.Base(argument) == o.Engine }
	if o.Engine == "" {
		serves = isEngine
	}
	return slices.ContainsFunc(p.args, serves) &&
		slices.ContainsFunc(p.args, func(a string) bool { return strings.HasPrefix(a, j.dir+"/") }) &&
		(o.Engine == "" || confine.RunsAs(p.PID, o.User))
}

// process is what the kernel says of one.
type process struct {
	pid
	dead     bool     // it has ended, and nobody has asked how
	ending   bool     // it has begun to end: it does nothing any more and still has its port
	starting bool     // it has no arguments yet
	leads    bool     // it is the first process of its session
	args     []string // nil if it has ended or begun to
}

// end ends every process of a database, and their children: politely if there is time for that.
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
			return errors.Join(ctx.Err(), writ.Errorf(writ.CodeDriverFailed, "process %d of %s does not end even by SIGKILL", p.PID, j.Resource).
				WithHint("the kernel keeps it, mostly for a disk that does not answer"))
		}
	}
}

// gone waits until a process has ended.
func (j *job) gone(ctx context.Context, p pid, o own, most time.Duration) bool {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	for wait := firstLook; j.lives(p, o); wait = min(2*wait, lastLook) {
		if sleep.For(ctx, wait) != nil {
			return !j.lives(p, o)
		}
	}
	return true
}
