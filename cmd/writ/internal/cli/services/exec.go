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
	"writ/cmd/writ/internal/client"
	"writ/cmd/writ/internal/terminal"
	"writ/coord/api"
	"writ/identity"
	"writ/internal/meant"
	"writ/scripts"
)

// execScript is the signed script that runs a program in a container. Its output is the exit code. The outputs of the
// program are in the result of the call instead, because coordinators store the output of a script.
const execScript = `// Runs a program in a container.
container := import("container")
run := import("run")

params := {
	name: {type: "string", help: "the container"},
	command: {type: "list", of: "string", help: "program and arguments"},
	timeout: {type: "string", default: "5m", help: "time limit of the program"}
}

p := run.params
run.output({exit_code: container.exec(p.name, {command: p.command}, {timeout: p.timeout}).exit_code})
`

// maxExecOutput is the smallest size of an output that may lack its beginning. The node keeps the last 24 KiB, and may
// drop up to 3 more bytes, so that the output begins with a whole character.
const maxExecOutput = 24<<10 - 3

// moreThanProgram is the time that a run may wait before and after its program.
const moreThanProgram = 10 * time.Minute

// execFlags hold the options of `writ exec`.
type execFlags struct {
	datacenter string
	timeout    time.Duration
}

func execCommand(env *cli.Env) *cobra.Command {
	var f execFlags
	c := &cobra.Command{
		Use:   "exec DEPLOYMENT|KIND/NAME -- COMMAND…",
		Short: "Run a program in a container, print its output and end with its exit code",
		Long: `Runs a program in a running container, with the user, directory and environment of the container. It prints
the output when the program has ended, and ends with its exit code. The words after -- are not passed to a shell. A
deployment stands for its container, if it has only one. If that is not named after the deployment, as web or web-1, the
command asks first.

It is not a terminal: the program gets no input, and its output is printed at its end. At most the last 24 KiB of each
output are kept.

The command signs a script that may only run this program in this container, and submits it as a run. "writ run show"
shows it with its signer. The exit code is signed by the supervisor, the output is not. The datacenter stores the output
as the result of a call. Ctrl-C and the end of --timeout kill the program.

You need the role deployer in the project of the container. Write no secret into COMMAND: each reader of the project can
read the script and the output. In the output, secrets of the environment of the container are replaced by their names.

An error of writ has its code in brackets, and the exit code of that code.`,
		Example: `  writ exec web -- nginx -T
  writ exec container/web-1 -- sh -c 'ls -l /var/log | tail -3'
  writ exec container/db --timeout 30m -- vacuumdb --all`,
		Args: execArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			return execute(cmd.Context(), env, args[0], args[1:], f)
		},
	}
	flags := c.Flags()
	flags.DurationVar(&f.timeout, "timeout", 5*time.Minute, "time limit of the program")
	cli.InRange(flags, "timeout", &f.timeout, time.Second, identity.MaxDeadline-moreThanProgram)
	cli.DatacenterFlag(env, c, &f.datacenter, "datacenter of the deployment or container, if the name is ambiguous")
	c.ValidArgsFunction = env.Completion(suggestExec)
	return c
}

// execArgs requires a target, -- and a program.
func execArgs(cmd *cobra.Command, args []string) error {
	dash := cmd.ArgsLenAtDash()
	switch {
	case len(args) == 0 || dash == 0:
		return cli.Exactly("DEPLOYMENT|KIND/NAME")(cmd, nil)
	case args[0] == "":
		return cli.Exactly("DEPLOYMENT|KIND/NAME")(cmd, args[:1])
	case dash < 0 && len(args) == 1, dash == 1 && len(args) == 1:
		return writ.Errorf(writ.CodeUsage, "COMMAND is missing").WithHint("write it after --: writ exec %s -- COMMAND",
			cli.ShellWord(args[0]))
	case dash != 1:
		words := make([]string, len(args))
		for i, word := range args {
			words[i] = cli.ShellWord(word)
		}
		return writ.Errorf(writ.CodeUsage, "the program has to come after --").
			WithHint("did you mean `writ exec %s -- %s`?", words[0], strings.Join(words[1:], " "))
	}
	if args[1] == "" {
		return writ.Errorf(writ.CodeUsage, "COMMAND is empty").WithHint("perhaps a variable is not set")
	}
	return nil
}

func suggestExec(ctx context.Context, c *client.Client) []string {
	all := cli.SuggestDeployments(ctx, c)
	containers, _ := c.Resources(ctx, api.ListResourcesParams{
		Kind: api.Given(writ.KindContainer), Project: api.Given(c.Context.Project),
	})
	for _, r := range containers {
		all = append(all, string(r.Kind)+"/"+r.Name)
	}
	return terminal.SortedNames(all)
}

// executed is the result of a program in JSON and YAML.
type executed struct {
	Run      writ.RunID `json:"run"`
	Resource string     `json:"resource"` // "container/web"
	ExitCode int64      `json:"exit_code"`
	Stdout   string     `json:"stdout"`
	Stderr   string     `json:"stderr"`
}

func execute(ctx context.Context, env *cli.Env, what string, command []string, f execFlags) error {
	c, roster, err := env.Cluster(ctx)
	if err != nil {
		return err
	}
	// The coordinator must not choose the project or the datacenter, because the program may change data there.
	project, err := cli.ProjectOf(c, roster)
	if err != nil {
		return err
	}
	datacenter, err := client.TheDatacenter(roster, f.datacenter)
	if err != nil {
		return err
	}
	container, deployment, err := containerOf(ctx, c, project, datacenter, what)
	if err != nil {
		return err
	}
	if err := agreeToContainer(env, what, deployment, container); err != nil {
		return err
	}
	by, err := c.Person(ctx, roster)
	if err != nil {
		return err
	}
	defer by.Close()
	words := make([]any, len(command))
	for i, word := range command {
		words[i] = word
	}
	t := &task{
		session: &session{Env: env, client: c, by: by, datacenter: datacenter.ID, project: project}, note: env.Note,
		undo: "the command that ran the program has ended",
		failed: func(run api.Run, failure *writ.Failure) error {
			return runview.Failed(env, run, failure, "", scripts.Bundle{})
		},
	}
	t.order = client.Order{
		Script:     client.NewScript("exec.tengo", []byte(execScript)),
		Datacenter: datacenter.ID, Project: project, Expires: identity.DefaultValidity,
		Deadline: f.timeout.Truncate(time.Second) + moreThanProgram, MaxCalls: 1,
		Params: map[string]any{"name": container.Name, "command": words, "timeout": f.timeout.String()},
	}
	if deployment != "" { // the program may change the resources of this deployment
		t.order.Uses = []string{deployment}
	}
	if "container/"+container.Name != what {
		env.Note("… in container/%s", container.Name)
	}
	return runProgram(ctx, t, container.Name)
}

// agreeToContainer asks the user about a container that the coordinator has chosen for a deployment. The supervisor
// refuses a container of another deployment, but not a container without a deployment. No question is needed if the
// container's name begins with the name of the deployment.
func agreeToContainer(env *cli.Env, what, deployment string, container writ.ResourceID) error {
	if what != deployment || container.Name == deployment || strings.HasPrefix(container.Name, deployment+"-") {
		return nil
	}
	hint := fmt.Sprintf("name the container: writ exec container/%s -- COMMAND", container.Name)
	if !env.Interactive() {
		return writ.Errorf(writ.CodeUsage, "the container %s is not named after the deployment %s, and the command cannot ask here",
			container.Name, deployment).WithHint("%s", hint)
	}
	return cli.ConfirmSigning(env, fmt.Sprintf("run the program in container/%s", container.Name), hint)
}

// runProgram runs the task of a program, prints its output and returns its exit code as an error.
func runProgram(ctx context.Context, t *task, name string) error {
	submission, err := t.submit(ctx)
	if err != nil {
		return err
	}
	run, err := t.watch(ctx, submission.Run, func(api.Event) {})
	if ctx.Err() != nil {
		return t.interrupted(ctx, submission.Run)
	}
	if err != nil {
		return err
	}
	output, err := t.ended(ctx, run)
	if err != nil {
		return err
	}
	code, ok := output["exit_code"].(int64)
	if !ok {
		return writ.Errorf(writ.CodeUnverified, "run %s has no signed exit code", run.ID).
			WithHint("`writ run show %s` shows its output", run.ID)
	}
	shown := executed{Run: run.ID, Resource: "container/" + name, ExitCode: code}
	values, err := t.client.Runs.Values(ctx, run.ID, 0)
	if err != nil {
		t.Warn("the output of the program is not available: %v; `writ run show %s --values` shows it later", err, run.ID)
	}
	for _, c := range values.Calls {
		shown.Stdout, _ = c.Values["stdout"].(string)
		shown.Stderr, _ = c.Values["stderr"].(string)
	}
	if err := printProgram(t.Env, shown); err != nil || code == 0 {
		return err
	}
	return &terminal.ExitError{Exit: int(code)}
}

// printProgram prints the outputs of a program.
func printProgram(env *cli.Env, shown executed) error {
	if env.Structured() {
		return env.Print(terminal.View{Data: shown})
	}
	for _, output := range []struct{ name, text string }{{"error output", shown.Stderr}, {"output", shown.Stdout}} {
		if len(output.text) >= maxExecOutput {
			env.Warn("the beginning of its %s is missing: only the last 24 KiB are kept", output.name)
		}
	}
	if _, err := fmt.Fprint(env.Err, terminal.CleanLines(shown.Stderr)); err != nil {
		return fmt.Errorf("print the error output: %w", err)
	}
	return env.PrintExact([]byte(shown.Stdout), nil)
}

// containerOf returns the container that an argument names: KIND/NAME, or a deployment with only one container.
func containerOf(
	ctx context.Context, c *client.Client, project identity.Project, datacenter *identity.Datacenter, what string,
) (found writ.ResourceID, deployment string, err error) {
	kind, name, isResource := strings.Cut(what, "/")
	switch {
	case isResource && kind == string(writ.KindMachine):
		return found, "", writ.Errorf(writ.CodeUsage, "writ cannot run programs in machines").
			WithHint("use ssh: `writ resource show %s` shows its address; `writ logs %[1]s` prints its console", what)
	case isResource && kind != string(writ.KindContainer), !writ.ValidName(name) && isResource:
		return found, "", writ.Errorf(writ.CodeUsage, "%q is not a container", what).
			WithHint("write kind and name, for example container/web")
	case !isResource && !writ.ValidName(what):
		return found, "", writ.Errorf(writ.CodeUsage, "%q is not a valid name of a deployment", what).
			WithHint("`writ deployment list` shows the names; for a container write container/NAME")
	}
	params := api.ListResourcesParams{
		Kind: api.Given(writ.KindContainer), Project: api.Given(string(project.ID)),
		Datacenter: api.Given(string(datacenter.ID)),
	}
	all, err := c.Resources(ctx, params)
	if err != nil {
		return found, "", err
	}
	var names []string
	for _, r := range all {
		if r.Name == name && isResource {
			return r.ResourceID, r.Deployment, nil
		}
		if r.Deployment == what && !isResource {
			names = append(names, r.Name)
		}
	}
	switch {
	case isResource:
		return found, "", writ.Errorf(writ.CodeNotFound, "project %s has no container %s in %s", project.Name, name,
			datacenter.Name).
			WithHint("%s", meant.Among(name, all, func(r writ.Resource) string { return r.Name },
				"`writ resource list --kind container` lists the containers"))
	case len(names) == 0 && slices.ContainsFunc(all, func(r writ.Resource) bool { return r.Name == what }):
		return found, "", writ.Errorf(writ.CodeNotFound, "project %s has no deployment %s in %s", project.Name, what,
			datacenter.Name).
			WithHint("there is a container of that name: `writ exec container/%s -- COMMAND`", what)
	case len(names) == 0:
		return found, "", writ.Errorf(writ.CodeNotFound, "project %s has no deployment %s with a container in %s",
			project.Name, what, datacenter.Name).
			WithHint("%s", meant.Among(what, all, func(r writ.Resource) string { return r.Deployment },
				"`writ deployment list` shows the deployments"))
	case len(names) > 1:
		return found, "", writ.Errorf(writ.CodeConflict, "the deployment %s has %d containers", what, len(names)).
			WithHint("name one of them: writ exec container/%s -- COMMAND", terminal.SortedNames(names)[0])
	}
	return writ.ResourceID{Project: project.ID, Kind: writ.KindContainer, Name: names[0]}, what, nil
}
