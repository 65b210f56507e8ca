package runs

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"writ"
	"writ/cmd/writ/internal/cli"
	"writ/cmd/writ/internal/cli/runview"
	"writ/cmd/writ/internal/cli/signing"
	"writ/cmd/writ/internal/cli/why"
	"writ/cmd/writ/internal/client"
	"writ/cmd/writ/internal/redact"
	"writ/cmd/writ/internal/terminal"
	"writ/coord/api"
	"writ/identity"
	"writ/identity/sshsig"
	"writ/internal/tracing"
	"writ/scripts"
)

// submitFlags hold the order of a submission and the options for watching its run.
type submitFlags struct {
	order  signing.OrderFlags
	detach bool
	traces tracing.Settings
	watchOptions
}

// watchOptions hold the options for watching a run and for the reports at its end.
type watchOptions struct {
	timeout time.Duration  // limit; 0 means no limit
	since   time.Time      // a proof that the run ended before this time is rejected as outdated
	ended   time.Time      // end of the run before it was resumed; earlier events are not shown
	script  string         // path of the submitted script, "" if unknown
	junit   string         // path of the JUnit report, "" for none
	summary string         // file that gets a Markdown report appended, "" for none
	cancel  bool           // cancel the run if watching stops
	bundle  scripts.Bundle // sources of the run, if it failed
}

func submitCommand(env *cli.Env) *cobra.Command {
	var s submitFlags
	c := &cobra.Command{
		Use:   "submit FILE",
		Short: "Check, sign and submit a script, and watch it until it has ended",
		Long: `Submits a script. FILE is a script, which is checked and signed first, or a file from "writ sign".

Then it watches until the run has ended, verifies the supervisor's signature on the result, and prints the script's
output. On Ctrl-C, SIGTERM and the end of --timeout the run continues, and the command prints how to watch it again.
With --cancel-on-exit they cancel the run. CI systems send such a signal when a job is cancelled.

--junit writes a test for the run and one for each call. The result of the run is the verified one. If the script
handled the error of a failed call, the call counts as skipped. --summary appends the same results to a Markdown
file. If the command ends before the run, both files contain the calls so far and the reason of the wait. If the
submission fails, --junit contains the error.`,
		Example: `  writ submit web.tengo -p count=3
  writ submit web.tengo --dc any --select region=eu --detach
  writ submit web.writ --timeout 10m
  writ submit web.tengo --timeout 10m --cancel-on-exit`,
		Args: s.order.File,
		RunE: func(cmd *cobra.Command, args []string) error {
			s.order.InProject = cli.IsTyped(cmd.Flag("project"))
			return submit(cmd.Context(), env, args[0], &s)
		},
	}
	s.order.Add(env, c)
	s.watchFlags(c)
	c.Flags().BoolVar(&s.detach, "detach", false, "only submit, and print the id of the run")
	c.Flags().BoolVar(&s.cancel, "cancel-on-exit", false,
		"cancel the run if this command ends before it: on Ctrl-C, SIGTERM or --timeout")
	c.MarkFlagsMutuallyExclusive("detach", "cancel-on-exit")
	cli.TracesFlags(c, &s.traces)
	return c
}

// watchFlags adds the flags of a command that watches a run.
func (s *submitFlags) watchFlags(c *cobra.Command) {
	c.Flags().DurationVar(&s.timeout, "timeout", 0, "longest time to watch; the run continues (exit code 6)")
	cli.InRange(c.Flags(), "timeout", &s.timeout, time.Millisecond, cli.Longest)
	c.Flags().StringVar(&s.junit, "junit", "",
		"file to write the result of the run and its calls to as JUnit XML, for CI systems")
	c.Flags().StringVar(&s.summary, "summary", "",
		"file to add the result of the run and its calls to as Markdown, for CI systems")
	c.PreRunE = func(*cobra.Command, []string) error { // before the submission
		if s.detach && (s.junit != "" || s.summary != "") {
			return writ.Errorf(writ.CodeUsage, "--detach does not wait for the results of --junit and --summary").
				WithHint("leave one of them out")
		}
		// An old report must not pass for the new one.
		if err := os.Remove(s.junit); s.junit != "" && err != nil && !errors.Is(err, fs.ErrNotExist) {
			return writ.Errorf(writ.CodeUsage, "cannot replace the report of --junit: %v", err)
		}
		return nil
	}
}

func submit(ctx context.Context, env *cli.Env, path string, s *submitFlags) (err error) {
	if s.cancel {
		defer holdOn()()
	}
	s.traces.Service, s.traces.Version, s.traces.Log = "writ-cli", env.Version, slog.New(slog.NewTextHandler(env.Err, nil))
	traces, err := tracing.Open(ctx, s.traces)
	if err != nil {
		return err
	}
	defer func() {
		if err := traces.Close(); err != nil {
			env.Warn("%v", err)
		}
	}()
	begun := time.Now()
	s.script = path
	submitted := false
	defer func() {
		if err != nil && !submitted {
			if unwritten := reportUnsubmitted(writ.AsError(err), s.watchOptions); unwritten != nil {
				env.Warn("%v", unwritten)
			}
		}
	}()
	signed, err := signedFile(ctx, env, path, &s.order)
	if err != nil {
		return err
	}
	c, err := env.Client()
	if err != nil {
		return err
	}
	if !s.detach {
		if err := mayWatch(ctx, c, client.RunOf(signed)); err != nil {
			return err
		}
	}
	handed := time.Now()
	submission, err := c.Orders.Submit(ctx, signed)
	switch {
	case err != nil && s.cancel && ctx.Err() != nil: // the coordinator may have received the submission
		next, _ := leave(ctx, env, c, client.RunOf(signed), s.watchOptions)
		return terminal.Interrupted(next)
	case err != nil:
		return err
	}
	submitted = true
	at := tracing.OfRun(submission.Run).Part("submit")
	traces.Record(tracing.Span{At: at.Part("hand in"), Name: "hand in", From: handed, Until: time.Now()})
	defer func() {
		span := tracing.Span{
			At: at, Name: "writ submit", From: begun, Until: time.Now(),
			Labels: map[string]string{"run": string(submission.Run)},
		}
		if err != nil {
			span.Error = redact.Text(err.Error())
		}
		traces.Record(span)
	}()
	c.Orders.Remember(signed)
	if s.detach {
		return env.Print(terminal.View{
			Data: submission, Names: []string{string(submission.Run)},
			Text: func(bool) string { return string(submission.Run) + "\n" },
		})
	}
	return watch(ctx, env, c, submission.Run, s.watchOptions)
}

// mayWatch returns an error if the coordinator requires a login and the user has no key for it. Without this check, the
// command would submit a file that another person has signed, and then fail to watch its run.
func mayWatch(ctx context.Context, c *client.Client, run writ.RunID) error {
	_, err := c.Runs.Get(ctx, run)
	if e := writ.AsError(err); e != nil && e.Code == writ.CodeKeyUnusable {
		return e.WithHint("%s; no script was submitted: --detach submits it without watching", e.Hint)
	}
	return nil // the submission reports other errors, and the run is unknown so far
}

// signedFile returns the submission for a file. A script is signed now; a file that is already a submission is returned
// unchanged.
func signedFile(ctx context.Context, env *cli.Env, path string, o *signing.OrderFlags) ([]byte, error) {
	f, err := env.ReadFile(path, sshsig.MaxSigned)
	if err != nil {
		return nil, client.NoScript(path, err)
	}
	if bytes.HasPrefix(f, []byte("writ-script: ")) {
		if given := o.Given(); len(given) > 0 {
			return nil, writ.Errorf(writ.CodeUsage, "%s is already signed, and %s would change the signed text", path,
				strings.Join(given, ", ")).
				WithHint("use it with `writ sign`, or submit the file unchanged")
		}
		return f, nil
	}
	if strings.HasSuffix(path, signing.SignedEnding) {
		return nil, writ.Errorf(writ.CodePayloadMalformed, "%s is not a signed script", path).
			WithHint("make it with `writ sign`, or join payload and signature with cat")
	}
	signed, by, err := sign(ctx, env, path, o)
	if err == nil {
		env.Note("signed by %s", by)
	}
	return signed, err
}

// watch shows a run until it has ended, verifies its end, prints its output and writes the reports.
func watch(ctx context.Context, env *cli.Env, c *client.Client, id writ.RunID, w watchOptions) error {
	watching, stop := ctx, context.CancelFunc(func() {})
	if w.timeout > 0 {
		watching, stop = context.WithTimeout(ctx, w.timeout)
	}
	defer stop()
	roster, err := c.Roster.Known(watching)
	if err != nil {
		return stopWatching(ctx, watching, env, c, nil, id, err, w)
	}
	for {
		p := runview.NewProgress(env.Terminal, roster, w.ended)
		p.Disks = runview.NewFullDisks(watching, c, id)
		run, err := watchProgress(watching, c, id, p)
		if err != nil {
			return stopWatching(ctx, watching, env, c, roster, id, err, w)
		}
		if roster, err = c.Roster.Newest(ctx); err != nil {
			return endUnverified(env, err, w)
		}
		end, err := c.Runs.End(ctx, roster, &run)
		if err != nil {
			return endUnverified(env, err, w)
		}
		if run.State.Ended() { // false if it was resumed in the meantime
			if end.Failure != nil && end.Failure.Position != "" {
				payload, _ := c.Runs.Payload(ctx, run) // optional: it only adds the source line
				w.bundle = why.BundleOf(payload)
			}
			err := conclude(env, roster, run, end, w)
			unwritten := reportRun(ctx, c, roster, run, end, w)
			if err != nil && unwritten != nil {
				env.Warn("%v", unwritten)
			}
			return cmp.Or(err, unwritten)
		}
	}
}

// watchProgress shows the events of a run until it has ended. While there are no events, it shows why the run waits.
func watchProgress(ctx context.Context, c *client.Client, id writ.RunID, p *runview.Progress) (api.Run, error) {
	lookout := runview.NewLookout(func(ctx context.Context) { p.Waits.NoteAll(why.WaitReasonsOf(ctx, c, id)) })
	defer lookout.Start(ctx)()
	watcher := p.Watcher()
	show := watcher.Event
	watcher.Event = func(e api.Event) {
		lookout.Heard()
		show(e)
	}
	return c.Streams.Watch(ctx, id, watcher)
}

// conclude reports the end of a run, as its datacenter has signed it.
func conclude(env *cli.Env, roster *identity.Roster, run api.Run, end client.End, w watchOptions) error {
	if run.Accepted.IsZero() { // the datacenter has refused it
		return runview.Failed(env, run, end.Failure, w.script, w.bundle)
	}
	if ended := time.UnixMilli(end.Ended); ended.Before(w.since) && end.Ended > 0 {
		return writ.Errorf(writ.CodeUnverified, "the coordinator shows how run %s ended at %s, before it was resumed", run.ID,
			cli.Clock(ended)).
			WithHint("try again with `writ run watch %s`, or use another coordinator with --server", run.ID)
	}
	if end.State != writ.RunSucceeded {
		noteUnsure(env, end)
		return runview.Failed(env, run, withResume(run, end.Failure, time.Now()), w.script, w.bundle)
	}
	run.Output = end.Output
	env.Done("run %s succeeded in %s with %s, signed by the supervisor of %s",
		run.ID, cli.ShortDuration(run.Ended.Sub(run.Accepted)), cli.Count(end.Calls, "call"),
		roster.Datacenter(run.Datacenter).Name)
	return env.Print(terminal.View{
		Data: run, Names: []string{string(run.ID)}, Text: func(bool) string { return runview.OutputText(run.Output) },
	})
}

// verified describes the proof of a run's end: complete, or only as of a time.
func verified(end client.End) string {
	if end.Unsure == nil {
		return "verified"
	}
	return fmt.Sprintf("verified as of %s; the run may have been resumed since then: %s",
		cli.Clock(time.UnixMilli(end.Ended)), writ.AsError(end.Unsure).Message)
}

// noteUnsure notes that a run may have been resumed after the end that is shown.
func noteUnsure(env *cli.Env, end client.End) {
	if end.Unsure != nil {
		env.Note("%s", verified(end))
	}
}
