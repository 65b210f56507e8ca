package services

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"writ"
	"writ/cmd/writ/internal/cli"
	"writ/cmd/writ/internal/cli/runview"
	"writ/cmd/writ/internal/cli/signing"
	"writ/cmd/writ/internal/client"
	"writ/cmd/writ/internal/terminal"
	"writ/coord/api"
	"writ/identity"
	"writ/internal/sleep"
	"writ/scripts"
)

// Limits of one run that reads a followed log. When that run ends, the command submits the next one. If the command
// disappears, its run ends within partsOfARun·waitForPart seconds. The limits also keep the results of a run below the
// limits of a journal.
const (
	partsOfARun = 60
	waitForPart = 60 // seconds
	linesOfPart = 1000
	logDeadline = 2 * time.Hour
)

// sayAfter is the delay after which the reader sees why the run has not begun.
const sayAfter = 3 * time.Second

// cancelWithin limits how long an interrupted command waits for the cancellation of its run.
const cancelWithin = 5 * time.Second

// logOperations maps kinds of resources to the operations that read their output.
var logOperations = map[writ.ResourceKind]string{writ.KindContainer: "logs", writ.KindMachine: "console"}

// logScript is the signed script that reads a log. Its results are the parts of the log.
const logScript = `// Reads the output of a %[1]s: first its end, then the text that is added.
%[1]s := import("%[1]s")
run := import("run")

params := {
	name: {type: "string", help: "the %[1]s"},
	lines: {type: "int", default: 100, min: 1, max: 1000, help: "number of lines from the end to print first"},
	after: {type: "string", default: "", help: "read the text after this position; empty: begin at the end"},
	parts: {type: "int", default: 1, min: 1, max: 100, help: "how many times to read"},
	wait: {type: "int", default: 0, min: 0, max: 60, help: "how many seconds to wait for more each time"}
}

p := run.params
at := p.after
for i := 0; i < p.parts; i++ {
	part := undefined
	if at == "" {
		part = %[1]s.%[2]s(p.name, {lines: p.lines})
	} else {
		part = %[1]s.%[2]s(p.name, {lines: 1000, after: at, wait_seconds: p.wait})
	}
	at = part.next
}
run.output({next: at})
`

// readFlags select the part of a log to read.
type readFlags struct {
	datacenter string
	tail       int
	after      string
	follow     bool
}

func logsCommand(env *cli.Env) *cobra.Command {
	var f readFlags
	c := &cobra.Command{
		Use:   "logs KIND/NAME",
		Short: "Print the log of a container or the console of a machine",
		Long: `Prints the end of the log of a container or of the console of a machine. With --follow it continues until
you interrupt it.

The command signs a small script that may only read this log, and submits it as a run. Ctrl-C cancels the run. The
datacenter stores the text in its journal as results of that run, and deletes it with the run.`,
		Example: "  writ logs container/web\n  writ logs machine/db --follow --tail 20\n  writ logs container/web -o json | jq -r .next",
		Args:    cli.Exactly("KIND/NAME"),
		RunE:    func(cmd *cobra.Command, args []string) error { return readLog(cmd.Context(), env, args[0], f) },
	}
	flags := c.Flags()
	flags.BoolVarP(&f.follow, "follow", "f", false, "follow the log until interrupted")
	flags.IntVarP(&f.tail, "tail", "n", 100, "number of lines from the end to print first")
	cli.InRange(flags, "tail", &f.tail, 1, linesOfPart)
	flags.StringVar(&f.after, "after", "",
		"start after this position (next in the output with -o json) instead of at the end")
	cli.DatacenterFlag(env, c, &f.datacenter, "datacenter of the resource, if the name is ambiguous")
	c.ValidArgsFunction = env.Completion(suggestLogs)
	return c
}

func suggestLogs(ctx context.Context, c *client.Client) []string {
	var all []string
	for kind := range logOperations {
		resources, _ := c.Resources(ctx,
			api.ListResourcesParams{Kind: api.Given(kind), Project: api.Given(c.Context.Project)})
		for _, r := range resources {
			all = append(all, string(r.Kind)+"/"+r.Name)
		}
	}
	return terminal.SortedNames(all)
}

func readLog(ctx context.Context, env *cli.Env, what string, f readFlags) error {
	kind, name, ok := strings.Cut(what, "/")
	verb := logOperations[writ.ResourceKind(kind)]
	switch {
	case writ.RunID(what).Valid():
		return writ.Errorf(writ.CodeUsage, "%s is the id of a run, and names no container and no machine", what).
			WithHint("`writ run logs %s` prints the lines that its script wrote with run.log", what)
	case !ok || !writ.ValidName(name):
		return writ.Errorf(writ.CodeUsage, "%q names no container and no machine", what).
			WithHint("write kind and name, for example container/web")
	case verb == "":
		return writ.Errorf(writ.CodeUsage, "a %s writes no log", kind).
			WithHint("containers and machines do; `writ run logs RUN` prints the lines that a script wrote with run.log")
	case f.follow && env.Format == terminal.YAML:
		return terminal.BadFormat(env.Format, "-o table", "-o json")
	}
	c, roster, err := env.Cluster(ctx)
	if err != nil {
		return err
	}
	project, err := cli.ProjectOf(c, roster)
	if err != nil {
		return err
	}
	datacenter, err := homeOf(ctx, env, c, roster, project, what, f.datacenter)
	if err != nil {
		return err
	}
	by, err := c.Person(ctx, roster)
	if err != nil {
		return err
	}
	defer by.Close()
	r := logReader{Env: env, client: c, by: by, what: what, follow: f.follow, next: f.after}
	r.order = client.Order{
		Script:     client.NewScript("logs.tengo", fmt.Appendf(nil, logScript, kind, verb)),
		Datacenter: datacenter, Project: project, Expires: identity.DefaultValidity, Deadline: logDeadline,
		MaxCalls: partsOfARun,
		Params:   map[string]any{"name": name, "lines": int64(f.tail), "parts": int64(1)},
	}
	if f.follow {
		r.order.Params["parts"], r.order.Params["wait"] = int64(partsOfARun), int64(waitForPart)
	}
	for {
		if err := r.run(ctx); err != nil || !f.follow {
			return err
		}
	}
}

// homeOf returns the datacenter that has a resource.
func homeOf(
	ctx context.Context, env *cli.Env, c *client.Client, roster *identity.Roster, project identity.Project,
	what, named string,
) (writ.DatacenterID, error) {
	if named != "" || len(roster.Datacenters) < 2 {
		return signing.ChooseDatacenter(ctx, env, c, roster, &signing.OrderFlags{Datacenter: named}, nil)
	}
	kind, name, _ := strings.Cut(what, "/")
	all, hint, err := cli.ResourcesNamed(ctx, c,
		api.ListResourcesParams{Kind: api.Given(writ.ResourceKind(kind)), Project: api.Given(string(project.ID))}, name)
	if err != nil {
		return "", err
	}
	switch len(all) {
	case 0:
		return "", writ.Errorf(writ.CodeNotFound, "project %s has no %s", project.Name, what).WithHint("%s", hint)
	case 1:
		return all[0].Datacenter, nil
	}
	return "", writ.Errorf(writ.CodeConflict, "%d datacenters have a %s", len(all), what).WithHint("choose with --dc")
}

// logReader prints a log with a sequence of runs. Each run reads a part of the log.
type logReader struct {
	*cli.Env
	client *client.Client
	by     *client.Person
	order  client.Order
	what   string
	follow bool

	next   string       // the position after the printed text
	state  string       // of the resource, as last seen
	middle bool         // the printed text ends within a line
	reason string       // the last reason that was shown
	waits  atomic.Value // string: why the run has not begun
}

// logPart is a part of a log as JSON.
type logPart struct {
	Text  string `json:"text"`
	Next  string `json:"next"`
	Lost  bool   `json:"lost"`
	More  bool   `json:"more"`
	State string `json:"state"`
}

// run signs and submits a script, and prints the results until the run has ended. If it is interrupted, it cancels the
// run.
func (r *logReader) run(ctx context.Context) error {
	roster, err := r.Roster(ctx, r.client)
	if err != nil {
		return err
	}
	if r.next != "" {
		r.order.Params["after"] = r.next
	}
	signed, err := r.order.Sign(roster, r.by)
	if err != nil {
		return err
	}
	submission, err := r.client.Orders.Submit(ctx, signed)
	if err != nil {
		return err
	}
	r.waits.Store("")
	slow := time.AfterFunc(sayAfter, func() {
		if why, _ := r.waits.Load().(string); why != "" {
			r.Note("… run %s %s", submission.Run, why)
		}
	})
	defer slow.Stop()
	seen := 0
	run, err := r.client.Streams.Watch(ctx, submission.Run, client.Watcher{
		Event: func(e api.Event) {
			r.explain(e)
			if e.Call != nil && e.Call.State == writ.CallSucceeded && e.Call.Seq > seen {
				seen, _ = r.fetch(ctx, submission.Run, seen) // results that this request misses come with the next one
			}
		},
		Lost: func(err error) { r.Note("… lost sight of run %s, looking again: %v", submission.Run, err) },
	})
	if err == nil {
		err = r.rest(ctx, submission.Run, seen)
	}
	if ctx.Err() != nil {
		r.cancel(ctx, submission)
		return terminal.Interrupted("")
	}
	if err != nil {
		return err
	}
	return r.ended(ctx, run)
}

// rest prints the remaining results of a run that has ended.
func (r *logReader) rest(ctx context.Context, run writ.RunID, seen int) error {
	for {
		_, err := r.fetch(ctx, run, seen)
		if err == nil || !writ.AsError(err).Retryable() {
			return err
		}
		r.showReason(fmt.Sprintf("the end of the log cannot be read yet: %v", err))
		if err := sleep.For(ctx, time.Second); err != nil {
			return err
		}
	}
}

// fetch prints the results of the calls with numbers above `after`. It returns the number of the last call that it
// printed.
func (r *logReader) fetch(ctx context.Context, run writ.RunID, after int) (last int, err error) {
	values, err := r.client.Runs.Values(ctx, run, after)
	if err != nil {
		return after, err
	}
	for _, c := range values.Calls {
		if c.Seq != after+1 || c.State != writ.CallSucceeded {
			break
		}
		after = c.Seq
		if err := r.print(c.Values); err != nil {
			return after, err
		}
	}
	return after, nil
}

// print shows a part of the log.
func (r *logReader) print(values map[string]any) error {
	var p logPart
	p.Text, _ = values["text"].(string)
	p.Next, _ = values["next"].(string)
	p.Lost, _ = values["lost"].(bool)
	p.More, _ = values["more"].(bool)
	p.State, _ = values["state"].(string)
	r.next = p.Next
	before := r.state
	r.state = p.State
	switch {
	case r.Structured() && !r.follow:
		return r.Print(terminal.View{Data: p})
	case r.Structured():
		return r.PrintLine(p)
	}
	if p.Lost {
		r.Warn("text may be missing here: it was deleted before it was read, or a container wrote it that was replaced")
	}
	if err := r.PrintText(plainLog(p.Text)); err != nil {
		return err
	}
	if p.Text != "" {
		r.middle = !strings.HasSuffix(p.Text, "\n")
	}
	if r.follow && p.State != before && (before != "" || p.State == "stopped") {
		if r.middle {
			fmt.Fprintln(r.Err)
			r.middle = false
		}
		r.Note("… %s is %s", r.what, p.State)
	}
	return nil
}

// escapes matches the escape sequences for colours and cursor movement.
var escapes = regexp.MustCompile(`\x1b(\[[0-9;?]*[ -/]*[@-~]|[()][0-9A-B]|[=>78cM])`)

// plainLog removes the control characters from a log that would change the state of a terminal.
func plainLog(text string) string {
	text = escapes.ReplaceAllString(text, "")
	return terminal.CleanLines(strings.ReplaceAll(text, "\r", ""))
}

// explain stores or shows the reason why the run has not begun to read: a datacenter that is away, or a node that is
// silent.
func (r *logReader) explain(e api.Event) {
	switch {
	case e.Run != nil && e.Run.State.Ended():
		r.waits.Store("")
	case e.Run != nil:
		r.waits.Store(e.Run.Reason)
	case e.Call != nil && e.Call.State.Ended():
		r.waits.Store("")
	case e.Call != nil:
		r.waits.Store("")
		r.showReason(e.Call.Reason)
	}
}

// showReason prints a reason, unless it repeats the previous one.
func (r *logReader) showReason(why string) {
	if why != "" && why != r.reason {
		r.Note("… %s", why)
	}
	r.reason = why
}

// ended returns the outcome of the run, as its datacenter has signed it.
func (r *logReader) ended(ctx context.Context, run api.Run) error {
	roster, err := r.client.Roster.Newest(ctx)
	if err != nil {
		return err
	}
	end, err := r.client.Runs.End(ctx, roster, &run)
	switch {
	case err != nil:
		return err
	case !run.State.Ended():
		return writ.Errorf(writ.CodeConflict, "run %s, which reads the log, was resumed", run.ID).
			WithHint("`writ run watch %s` shows it", run.ID)
	case end.State == writ.RunSucceeded:
		return nil
	}
	failure := end.Failure
	if failure != nil {
		printed := *failure
		printed.Position, printed.Trace = "", nil // the script is part of writ
		if printed.Hint == "" && r.next != "" {
			printed.Hint = fmt.Sprintf("`writ logs %s --after %s` continues after the printed text", r.what, r.next)
		}
		failure = &printed
	}
	return runview.Failed(r.Env, run, failure, "", scripts.Bundle{})
}

// cancel cancels a run whose output has no reader.
func (r *logReader) cancel(ctx context.Context, s writ.Submission) {
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), cancelWithin)
	defer stop()
	cancel := client.AboutRun(api.Run{
		ID: s.Run, Datacenter: r.order.Datacenter, Script: r.order.Script.Bundle.Main.Name, Project: r.order.Project.ID,
		ProjectName: r.order.Project.Name,
	}, "cancel")
	cancel.Reason = "the log is not read any more"
	_, err := r.client.Statements.Decide(ctx, r.by, cancel)
	run, gone := r.client.Runs.Get(ctx, s.Run)
	if err != nil && (gone != nil || !run.State.Ended()) {
		r.Warn("run %s continues to read for some time: %v; `writ run cancel %s` ends it", s.Run, err, s.Run)
	}
}
