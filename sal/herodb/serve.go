package herodb

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"time"

	"writ"
	"writ/internal/confine"
	"writ/internal/sleep"
	"writ/sal"
)

// how selects the handling of a process that already serves a database.
type how int

const (
	adopt  how = iota // the process continues unchanged
	reload            // the process applies the record; it is replaced if its engine cannot do that
	renew             // the process is replaced
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

// ensureProcess makes a process serve the database with the settings of the record. The caller must write the record
// afterwards.
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
	// The tree is not created again here: if it was removed, a new tree would silently replace the data by an empty
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

// refresh sets the resource limits of a running process and waits until the process answers. If how is reload, it also
// makes the process apply the record.
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

// configure writes the files that the engine reads at its start. For an engine without such files, it links the data
// into the directory of the database, where the engine expects it.
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
		if err == nil && in.own.User != 0 { // a running process reads the file again
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
	copies := j.copies()
	p, err := copies.program(ctx, j.offer(), r.Own)
	if err != nil {
		return err
	}
	if err := copies.keep(p, r.Own); err != nil {
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
		return cannotListen(j.Resource, in.own.Host, in.own.Port, err)
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
	j.children.add(started)
	j.restarts.Began(j.Resource.HostName())
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
