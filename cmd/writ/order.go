package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"writ"
	"writ/cmd/writ/internal/cli"
	"writ/cmd/writ/internal/client"
	"writ/cmd/writ/internal/redact"
	"writ/cmd/writ/internal/terminal"
	"writ/identity"
	"writ/scripts"
)

// orderFlags hold the properties of an order. The commands payload, sign and submit have these flags.
type orderFlags struct {
	own         cli.ModuleFlags
	params      []string
	paramsFile  string
	datacenter  string
	labels      []string
	deployment  string
	expires     time.Duration
	deadline    time.Duration
	maxCalls    int
	destructive targetsFlag
	plan        string
	secrets     []string
	signs       []*pflag.Flag // flags that change the signed text
	planning    bool          // unknown values may be guessed
	offline     bool          // no requests are allowed
}

// secretsOf returns the names of the secrets that a script uses, as known from the script and the flags.
func (o *orderFlags) secretsOf(script client.Script) []string {
	return slices.Concat(script.Report.Secrets, o.secrets)
}

// defaultDeadline is the default of --deadline.
const defaultDeadline = time.Hour

func (o *orderFlags) add(a *app, c *cobra.Command) {
	o.addTask(a, c)
	f := c.Flags()
	f.DurationVar(&o.expires, "expires", identity.DefaultValidity, "how long the script may be accepted")
	cli.InRange(f, "expires", &o.expires, time.Second, identity.MaxValidity)
	f.StringVar(&o.plan, "plan", "", "digest of the plan to bind the run to, as `writ plan` shows it; it stops before it deviates")
	f.VisitAll(func(f *pflag.Flag) { o.signs = append(o.signs, f) })
}

// given returns the flags on the command line that change the signed text.
func (o *orderFlags) given() []string {
	var names []string
	for _, f := range o.signs {
		if f.Changed {
			names = append(names, "--"+f.Name)
		}
	}
	return names
}

// check rejects flags that cannot be signed. It also runs for a plan, so that a plan can always be submitted.
func (o *orderFlags) check() error {
	if o.deadline%time.Second != 0 {
		return writ.Errorf(writ.CodeUsage, "--deadline: %s has parts of a second", o.deadline).WithHint("write whole seconds, like 90s or 2h")
	}
	versions := make(map[string]int)
	for _, word := range o.secrets {
		name, version, err := parseSecret(word)
		if err != nil {
			return err
		}
		if other := versions[name]; other != 0 && version != 0 && other != version {
			return writ.Errorf(writ.CodeUsage, "--secret names two versions of %s, %d and %d", name, other, version).WithHint("a run has one version of a secret")
		}
		versions[name] = max(versions[name], version)
	}
	return nil
}

// addTask adds the flags that describe the task.
func (o *orderFlags) addTask(a *app, c *cobra.Command) {
	o.own.Add(c)
	f := c.Flags()
	f.StringArrayVarP(&o.params, "param", "p", nil, "parameter as name=value (repeatable)")
	f.StringVar(&o.paramsFile, "params", "", "file (YAML or JSON) with parameters")
	f.StringVar(&o.datacenter, "dc", "", "name or id of the datacenter, or \"any\"")
	f.StringArrayVar(&o.labels, "select", nil, "with --dc any: label=value that the datacenter must have, region=… too (repeatable)")
	f.StringVar(&o.deployment, "deployment", "", "deployment that the script makes: NAME, or NAME@BASE with the revision that the plan was made for")
	f.DurationVar(&o.deadline, "deadline", defaultDeadline, "how long its run may take")
	cli.InRange(f, "deadline", &o.deadline, time.Second, identity.MaxDeadline)
	f.IntVar(&o.maxCalls, "max-calls", scripts.MaxCalls, "how many calls it may make")
	cli.InRange(f, "max-calls", &o.maxCalls, 1, scripts.MaxCalls)
	f.Var(&o.destructive, "destructive", "allow the script to delete or overwrite data; with KIND/NAME or KIND/PREFIX*, separated by "+
		"commas, only these")
	f.Lookup("destructive").NoOptDefVal = bareFlag
	f.StringArrayVar(&o.secrets, "secret", nil, "secret whose name the script computes, or the version of one: NAME or NAME@VERSION (repeatable)")
	if err := c.RegisterFlagCompletionFunc("param", o.completeParams); err != nil {
		panic(err) // the flag was defined above
	}
	a.CompleteFlag(c, "dc", func(ctx context.Context, c *client.Client) []string {
		return append(cli.SuggestDatacenters(ctx, c), anyDatacenter)
	})
}

// order builds the order from the flags. It requests the state of the datacenters only if it must choose one, and the
// list of secrets only if the script uses some.
func (a *app) order(ctx context.Context, c *client.Client, roster *identity.Roster, script client.Script, o *orderFlags) (client.Order, error) {
	order := client.Order{Script: script, Expires: o.expires, Deadline: o.deadline, MaxCalls: o.maxCalls}
	err := o.check()
	if err != nil {
		return order, err
	}
	a.warnOfTimeouts(script.Report, o.deadline)
	if order.Params, err = o.readParams(a.Terminal, script.Report.Params); err != nil {
		return order, err
	}
	if order.Deployment, err = parseDeployment(o.deployment); err != nil {
		return order, err
	}
	if order.Project, err = cli.ProjectOf(c, roster); err != nil {
		return order, err
	}
	if order.Datacenter, err = a.chooseDatacenter(ctx, c, roster, o, &order); err != nil {
		return order, err
	}
	if o.offline {
		order.Secrets = client.FirstVersions(o.secretsOf(script))
		return order, nil
	}
	if err := a.resolveBase(ctx, c, &order, o); err != nil {
		return order, err
	}
	order.Secrets, err = c.ResolveSecrets(ctx, roster.Datacenter(order.Datacenter), order.Project, o.secretsOf(script))
	if err != nil && o.planning && slices.Contains(noPreview, writ.CodeOf(err)) {
		a.Warn("%v: the plan uses their first versions", err)
		order.Secrets, err = client.FirstVersions(o.secretsOf(script)), nil
	}
	return order, err
}

// resolveBase sets the base of the order to the newest revision of its deployment, unless the user named a revision. A
// plan always uses the newest one.
func (a *app) resolveBase(ctx context.Context, c *client.Client, order *client.Order, o *orderFlags) error {
	if o.planning || o.deployment == "" || strings.Contains(o.deployment, "@") {
		return nil
	}
	revision, err := c.Revision(ctx, *order)
	if slices.Contains(noPreview, writ.CodeOf(err)) {
		return writ.Errorf(writ.CodeOf(err), "the newest revision of the deployment %s is not known: %s", o.deployment, writ.AsError(err).Message).
			WithHint("name the one that the script follows, or --deployment %s@0 for a new deployment", o.deployment)
	}
	if err != nil {
		return err
	}
	order.Deployment.Base = revision
	a.Note("deployment %s: revision %d", o.deployment, revision+1)
	return nil
}

// anyDatacenter makes the client choose a datacenter.
const anyDatacenter = "any"

// chooseDatacenter returns the datacenter that the flags select. For "any", it chooses one with room for the order,
// unless order is nil.
func (a *app) chooseDatacenter(ctx context.Context, c *client.Client, roster *identity.Roster, o *orderFlags,
	order *client.Order) (writ.DatacenterID, error) {
	labels, err := cli.Pairs(o.labels, "--select")
	if err == nil {
		err = cli.CheckLabels(labels, "--select")
	}
	if err != nil {
		return "", err
	}
	switch {
	case o.datacenter == anyDatacenter:
		var needs []client.Need
		if order != nil {
			plan, err := order.Plan(ctx, roster)
			if err != nil {
				return "", err
			}
			needs = client.Needs(plan, order.Project.ID)
		}
		choice, err := c.Choose(ctx, roster, labels, needs)
		if err != nil {
			return "", err
		}
		for _, line := range choice.Explain() {
			a.Note("  %s", line)
		}
		return choice.Datacenter.ID, nil
	case len(labels) > 0:
		return "", writ.Errorf(writ.CodeUsage, "--select chooses among datacenters").WithHint("add --dc any")
	case o.datacenter != "":
		d, err := client.Datacenter(roster, o.datacenter)
		if err != nil {
			return "", err
		}
		return d.ID, nil
	case len(roster.Datacenters) == 1:
		return roster.Datacenters[0].ID, nil
	case len(roster.Datacenters) == 0:
		return "", writ.Errorf(writ.CodeDatacenterUnknown, "the roster has no datacenter yet").WithHint("a root operator adds one with `writ dc add`")
	}
	return "", client.SeveralDatacenters(roster).WithHint("choose with --dc NAME, or --dc any")
}

// readParams reads the parameters from the file, and then those of -p, which take precedence.
func (o *orderFlags) readParams(in *terminal.Terminal, known scripts.Params) (map[string]any, error) {
	given := make(map[string]any)
	if o.paramsFile != "" {
		var err error
		if given, err = readParamsFile(in, o.paramsFile, known); err != nil {
			return nil, err
		}
	}
	for _, p := range o.params {
		name, value, err := known.ParseParam(p)
		if err != nil {
			return nil, err
		}
		given[name] = value
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if holdsKey(given[name]) {
			return nil, cli.HoldsSecret(fmt.Sprintf("the parameter %q", name))
		}
	}
	return given, nil
}

// holdsKey reports whether a parameter is a private key or a join token, or a list that contains one. Passwords and
// certificates do not count, because they can be examples or the subject of a script.
func holdsKey(v any) bool {
	switch v := v.(type) {
	case string:
		return redact.HoldsToken(v)
	case []any:
		return slices.ContainsFunc(v, holdsKey)
	}
	return false
}

func parseDeployment(s string) (identity.Deployment, error) {
	if s == "" {
		return identity.Deployment{}, nil
	}
	name, base, ok := strings.Cut(s, "@")
	n := 0
	if ok {
		var err error
		if n, err = strconv.Atoi(base); err != nil || n < 0 {
			return identity.Deployment{}, writ.Errorf(writ.CodeUsage, "--deployment %q: %q is not a revision", s, base).WithHint("it looks like web@12")
		}
	}
	if !writ.ValidName(name) {
		return identity.Deployment{}, writ.Errorf(writ.CodeUsage, "--deployment %q: %q is not a valid name", s, name).WithHint("it looks like web@12")
	}
	return identity.Deployment{Name: name, Base: n}, nil
}
