package services

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"writ"
	"writ/cmd/writ/internal/cli"
	"writ/cmd/writ/internal/client"
	"writ/cmd/writ/internal/revision"
	"writ/cmd/writ/internal/terminal"
	"writ/coord/api"
)

const (
	// maxLogs limits the logs that a command reads at once: a node lets 16 calls wait for output by default.
	maxLogs = 16
	// lookEvery is the interval of the search for new containers and machines of a followed deployment.
	lookEvery = 5 * time.Second
	// longestPause limits the pause before a failed reader starts again, which doubles with each failure.
	longestPause = time.Minute
)

// deploymentLogs reads the logs of a deployment.
type deploymentLogs struct {
	session
	deployment revision.Deployment
	printer    namedPrinter
	flags      readFlags

	ended   chan endedReader
	running sync.WaitGroup
	logs    map[writ.UID]*followedLog // by the resource
}

// followedLog is the state of one of the followed logs.
type followedLog struct {
	name   string
	reads  bool   // a reader runs
	next   string // position of the next reader
	pause  time.Duration
	notice time.Time // earliest start of the next reader
}

// endedReader is a reader that has ended with an error.
type endedReader struct {
	uid  writ.UID
	next string
	err  error
}

// readDeployment reads the logs of all containers and machines of a deployment.
func readDeployment(ctx context.Context, env *cli.Env, name string, f readFlags) error {
	if f.after != "" {
		return writ.Errorf(writ.CodeUsage, "--after is a position in one log, and a deployment has several").
			WithHint("name the container or machine: writ logs container/NAME --after POSITION")
	}
	c, d, err := cli.FindDeployment(ctx, env, name, f.datacenter)
	if writ.CodeOf(err) == writ.CodeNotFound {
		return meantLog(ctx, env, c, name, err)
	}
	if err != nil {
		return err
	}
	l := &deploymentLogs{
		session: session{Env: env, client: c, datacenter: d.Datacenter}, deployment: d,
		printer: namedPrinter{Env: env, follow: f.follow}, flags: f, ended: make(chan endedReader),
		logs: make(map[writ.UID]*followedLog),
	}
	roster, err := env.Roster(ctx, c)
	if err != nil {
		return err
	}
	if l.project, err = client.Project(roster, string(d.Project)); err != nil {
		return err
	}
	all, err := l.list(ctx)
	if err != nil {
		return err
	}
	if l.by, err = c.Person(ctx, roster); err != nil {
		return err
	}
	defer l.by.Close()
	if !f.follow {
		return l.readOnce(ctx, all)
	}
	return l.followAll(ctx, all)
}

// meantLog returns the error for an unknown deployment. It suggests a container or machine with the name.
func meantLog(ctx context.Context, env *cli.Env, c *client.Client, name string, unknown error) error {
	for _, kind := range []writ.ResourceKind{writ.KindContainer, writ.KindMachine} {
		found, _, err := cli.ResourcesNamed(ctx, c,
			api.ListResourcesParams{Kind: api.Given(kind), Project: api.Given(env.Flags.Project)}, name)
		if err == nil && len(found) > 0 {
			return writ.Errorf(writ.CodeNotFound, "%s", writ.AsError(unknown).Message).
				WithHint("there is a %s of that name: `writ logs %s/%s`", kind, kind, name)
		}
	}
	return unknown
}

// list returns the containers and machines of the deployment, sorted by kind and name.
func (l *deploymentLogs) list(ctx context.Context) ([]api.ListedResource, error) {
	d := l.deployment
	all, err := l.client.Listed(ctx, api.ListResourcesParams{
		Project: api.Given(string(d.Project)), Datacenter: api.Given(string(d.Datacenter)), Deployment: &d.Name,
	})
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(all, func(r api.ListedResource) bool { return logOperations[r.Kind] == "" })
	slices.SortFunc(all, func(a, b api.ListedResource) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), terminal.CompareNames(a.Name, b.Name))
	})
	switch {
	case len(all) == 0:
		return nil, writ.Errorf(writ.CodeNotFound, "the deployment %s has no container and no machine", d.Name).
			WithHint("`writ status %s` shows its resources", d.Name)
	case len(all) > maxLogs:
		return nil, writ.Errorf(writ.CodeUsage, "the deployment %s has %d containers and machines, and the command reads at most %d logs",
			d.Name, len(all), maxLogs).
			WithHint("name one of them: writ logs %s/%s", all[0].Kind, all[0].Name)
	}
	return all, nil
}

// reader returns the reader of a log.
func (l *deploymentLogs) reader(r api.ListedResource, f readFlags) (*logReader, *namedLog) {
	reader := newLogReader(&l.session, r.Kind, r.Name, f)
	log := l.printer.of(reader.what)
	reader.print, reader.note = log.print, l.printer.note
	reader.failed = func(run api.Run, failure *writ.Failure) error {
		e := writ.Errorf(writ.CodeScriptFailed, "run %s %s", run.ID, cli.StateClause(writ.RunState(run.State)))
		if failure != nil {
			e = writ.Errorf(failure.Code, "%s", failure.Message).WithHint("%s", reader.hint(failure))
		}
		return e
	}
	return reader, log
}

// readOnce prints the ends of all logs. It returns the first error, and warns of the others.
func (l *deploymentLogs) readOnce(ctx context.Context, all []api.ListedResource) error {
	errs := make([]error, len(all))
	var reading sync.WaitGroup
	for i, r := range all {
		reader, log := l.reader(r, l.flags)
		reading.Go(func() {
			if errs[i] = reader.read(ctx); errs[i] == nil {
				errs[i] = log.finish()
			}
		})
	}
	reading.Wait()
	if err := l.printer.flush(); err != nil {
		return err
	}
	var first error
	for i, err := range errs {
		switch {
		case err == nil:
		case first == nil:
			first = err
		default:
			l.Warn("%s/%s: %v", all[i].Kind, all[i].Name, err)
		}
	}
	return first
}

// followAll prints all logs as they grow until ctx ends. It starts readers for containers and machines that are created
// later, and restarts readers that failed.
func (l *deploymentLogs) followAll(ctx context.Context, all []api.ListedResource) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer l.running.Wait()
	defer stop(nil)
	first := true
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	for {
		l.start(ctx, all, first)
		first = false
		select {
		case <-ctx.Done():
			return terminal.Interrupted("")
		case e := <-l.ended:
			if err := l.restartable(e); err != nil {
				return err
			}
		case <-look.C:
			listed, err := l.list(ctx)
			switch {
			case ctx.Err() != nil:
				return terminal.Interrupted("")
			case err == nil:
				all = listed
			case !writ.AsError(err).Retryable():
				return err
			}
		}
	}
}

// start starts a reader for each log without a running reader. The first readers print the end of their log, and later
// readers print the whole log.
func (l *deploymentLogs) start(ctx context.Context, all []api.ListedResource, first bool) {
	for uid, log := range l.logs {
		if !slices.ContainsFunc(all, func(r api.ListedResource) bool { return r.UID == uid }) && !log.reads {
			delete(l.logs, uid)
			l.printer.note("… %s is deleted", log.name)
		}
	}
	for _, r := range all {
		log := l.logs[r.UID]
		if log == nil {
			log = &followedLog{name: string(r.Kind) + "/" + r.Name}
			l.logs[r.UID] = log
		}
		if log.reads || time.Now().Before(log.notice) {
			continue
		}
		f := l.flags
		f.after = log.next
		if !first && f.after == "" {
			f.tail = linesOfPart
		}
		log.reads = true
		l.follow(ctx, r, f)
	}
}

// follow starts a reader.
func (l *deploymentLogs) follow(ctx context.Context, r api.ListedResource, f readFlags) {
	reader, log := l.reader(r, f)
	l.running.Go(func() {
		err := reader.read(ctx)
		_ = log.finish() // an error means that the output is closed; writing the next line returns it again
		select {
		case l.ended <- endedReader{r.UID, reader.next, err}:
		case <-ctx.Done():
		}
	})
}

// restartable schedules the next start of an ended reader. If each further start would fail with the same error, it
// returns the error instead.
func (l *deploymentLogs) restartable(e endedReader) error {
	log := l.logs[e.uid]
	log.reads, log.next = false, e.next
	known := writ.AsError(e.err)
	switch kind := known.Code.Info().Kind; {
	case known.Code == writ.CodeResourceUnknown: // the next list does not contain the resource
		log.notice = time.Now().Add(lookEvery)
		return nil
	case kind == writ.Denied, kind == writ.Internal:
		return e.err
	}
	log.pause = min(max(2*log.pause, lookEvery), longestPause)
	log.notice = time.Now().Add(log.pause)
	l.printer.note("… %s cannot be read, trying again in %s: %v", log.name, log.pause, e.err)
	return nil
}
