package services

import (
	"context"
	"fmt"
	"slices"
	"strings"
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
	"writ/scripts"
)

// Limits of one run that reads a followed log. When this run ends, the command submits the next run. If the command
// disappears, its run ends within partsOfARun·waitForPart seconds. The limits also keep the results of a run below the
// limits of a journal.
const (
	partsOfARun = 60
	waitForPart = 60 // seconds
	linesOfPart = 1000
	logDeadline = 2 * time.Hour
)

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
		Use:   "logs DEPLOYMENT|KIND/NAME",
		Short: "Print the logs of a deployment, of a container, or the console of a machine",
		Long: `Prints the end of the log of a container or of the console of a machine. With --follow it continues until
you interrupt it. For a deployment it prints the logs of all its containers and machines, each line with its name. With
--follow, it also prints the logs of those that are made later.

The command signs a small script for each log that may only read this log, and submits it as a run. "writ run list"
omits such runs unless --all is set. Ctrl-C cancels the runs. The datacenter stores the text in its journal as results of
the run, and deletes it with the run. You need a role that may submit scripts in the project.`,
		Example: `  writ logs web --follow
  writ logs container/web
  writ logs machine/db --follow --tail 20
  writ logs container/web -o json | jq -r .next`,
		Args: cli.Exactly("DEPLOYMENT|KIND/NAME"),
		RunE: func(cmd *cobra.Command, args []string) error { return readLogs(cmd.Context(), env, args[0], f) },
	}
	flags := c.Flags()
	flags.BoolVarP(&f.follow, "follow", "f", false, "follow the log until interrupted")
	flags.IntVarP(&f.tail, "tail", "n", 100, "number of lines from the end to print first, of each log")
	cli.InRange(flags, "tail", &f.tail, 1, linesOfPart)
	flags.StringVar(&f.after, "after", "",
		"start after this position of one log (next in the output with -o json) instead of at the end")
	cli.DatacenterFlag(env, c, &f.datacenter, "datacenter of the deployment or resource, if the name is ambiguous")
	c.ValidArgsFunction = env.Completion(suggestLogs)
	return c
}

func suggestLogs(ctx context.Context, c *client.Client) []string {
	all := cli.SuggestDeployments(ctx, c)
	for kind := range logOperations {
		resources, _ := c.Resources(ctx,
			api.ListResourcesParams{Kind: api.Given(kind), Project: api.Given(c.Context.Project)})
		for _, r := range resources {
			all = append(all, string(r.Kind)+"/"+r.Name)
		}
	}
	return terminal.SortedNames(all)
}

// readLogs reads the log of a resource, or the logs of a deployment.
func readLogs(ctx context.Context, env *cli.Env, what string, f readFlags) error {
	if f.follow && env.Format == terminal.YAML {
		return terminal.BadFormat(env.Format, "-o table", "-o json")
	}
	if writ.RunID(what).Valid() {
		return writ.Errorf(writ.CodeUsage, "%s is the id of a run, not a deployment or resource", what).
			WithHint("`writ run logs %s` prints the lines that its script wrote with run.log", what)
	}
	if !strings.Contains(what, "/") {
		return readDeployment(ctx, env, what, f)
	}
	kind, name, err := logOf(what)
	if err != nil {
		return err
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
	printer := &logPrinter{Env: env, what: what, follow: f.follow}
	r := newLogReader(&session{Env: env, client: c, by: by, datacenter: datacenter, project: project}, kind, name, f)
	r.print, r.note = printer.print, env.Note
	r.failed = func(run api.Run, failure *writ.Failure) error {
		if failure != nil {
			failure.Hint = r.hint(failure)
		}
		return runview.Failed(env, run, failure, "", scripts.Bundle{})
	}
	return r.read(ctx)
}

// logOf parses KIND/NAME of a resource with a log.
func logOf(what string) (kind writ.ResourceKind, name string, err error) {
	word, name, _ := strings.Cut(what, "/")
	kind = writ.ResourceKind(word)
	switch {
	case !writ.ValidName(name):
		return "", "", writ.Errorf(writ.CodeUsage, "%q is not a container or machine", what).
			WithHint("write kind and name, for example container/web")
	case logOperations[kind] == "" && slices.Contains(cli.ResourceKinds, word):
		return "", "", writ.Errorf(writ.CodeUsage, "a %s writes no log", kind).
			WithHint("containers and machines do; `writ run logs RUN` prints the lines that a script wrote with run.log")
	case logOperations[kind] == "":
		return "", "", cli.NotPossible("KIND/NAME", word, []string{"container", "machine"})
	}
	return kind, name, nil
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

// newLogReader returns a reader of the log of a resource. The caller sets print, note and failed.
func newLogReader(of *session, kind writ.ResourceKind, name string, f readFlags) *logReader {
	verb := logOperations[kind]
	r := &logReader{what: string(kind) + "/" + name, follow: f.follow, next: f.after}
	r.session, r.undo = of, "the log is not read any more"
	r.order = client.Order{
		Script:     client.NewScript("logs.tengo", fmt.Appendf(nil, logScript, kind, verb)),
		Datacenter: of.datacenter, Project: of.project, Expires: identity.DefaultValidity, Deadline: logDeadline,
		MaxCalls: partsOfARun,
		Params:   map[string]any{"name": name, "lines": int64(f.tail), "parts": int64(1)},
	}
	if f.follow {
		r.order.Params["parts"], r.order.Params["wait"] = int64(partsOfARun), int64(waitForPart)
	}
	return r
}
