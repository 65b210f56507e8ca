// Package signing builds the order that a user signs. It reads a script with its parameters, and selects the project,
// the datacenter and the versions of secrets. It does not send the order.
package signing

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
	"writ/cmd/writ/internal/registry"
	"writ/cmd/writ/internal/terminal"
	"writ/identity"
	"writ/scripts"
	"writ/scripts/check"
)

// OrderFlags hold the properties of an order. The commands payload, sign and submit have these flags.
type OrderFlags struct {
	Own         cli.ModuleFlags
	Params      []string
	ParamsFile  string
	Datacenter  string
	labels      []string
	Deployment  string
	Uses        []string
	Expires     time.Duration
	Deadline    time.Duration
	MaxCalls    int
	Destructive targetsFlag
	Plan        string
	Prune       pruneFlag
	Secrets     []string
	Images      []string
	signs       []*pflag.Flag // flags that change the signed text
	Planning    bool          // unknown values may be guessed
	Offline     bool          // no requests are allowed
	InProject   bool          // --project is on the command line
}

// SecretsOf returns the names of the secrets that a script uses, as known from the script and the flags.
func (o *OrderFlags) SecretsOf(script client.Script) []string {
	return slices.Concat(script.Report.Secrets, o.Secrets)
}

// DefaultDeadline is the default of --deadline.
const DefaultDeadline = time.Hour

// Add adds the flags to a command.
func (o *OrderFlags) Add(env *cli.Env, c *cobra.Command) {
	o.AddTask(env, c)
	f := c.Flags()
	f.DurationVar(&o.Expires, "expires", identity.DefaultValidity, "time limit for the acceptance of the script; a datacenter accepts one more minute, because clocks differ")
	cli.InRange(f, "expires", &o.Expires, time.Second, identity.MaxValidity)
	f.StringVar(&o.Plan, "plan", "",
		"bind the run to the plan with this digest, shown by `writ plan`; the run stops before it deviates")
	f.VisitAll(func(f *pflag.Flag) { o.signs = append(o.signs, f) })
}

// Given returns the flags on the command line that change the signed text.
func (o *OrderFlags) Given() []string {
	var names []string
	for _, f := range o.signs {
		if f.Changed {
			names = append(names, "--"+f.Name)
		}
	}
	if o.InProject {
		names = append(names, "--project")
	}
	return names
}

// Check rejects flags that cannot be signed. It also runs for a plan, so that a plan can always be submitted.
func (o *OrderFlags) Check() error {
	if o.Deadline%time.Second != 0 {
		return writ.Errorf(writ.CodeUsage, "--deadline: %s has parts of a second", o.Deadline).
			WithHint("write whole seconds, like 90s or 2h")
	}
	if o.Prune.Said && o.Deployment == "" {
		return writ.Errorf(writ.CodeUsage, "--prune deletes resources of a deployment").WithHint("add --deployment NAME")
	}
	if err := o.checkUses(); err != nil {
		return err
	}
	versions := make(map[string]int)
	for _, word := range o.Secrets {
		name, version, err := ParseSecret(word)
		if err != nil {
			return err
		}
		if other := versions[name]; other != 0 && version != 0 && other != version {
			return writ.Errorf(writ.CodeUsage, "--secret names two versions of %s, %d and %d", name, other, version).
				WithHint("a run has one version of a secret")
		}
		versions[name] = max(versions[name], version)
	}
	return nil
}

// checkUses rejects names of --uses that cannot be signed.
func (o *OrderFlags) checkUses() error {
	own, _, _ := strings.Cut(o.Deployment, "@")
	for i, name := range o.Uses {
		switch {
		case !writ.ValidName(name):
			return writ.Errorf(writ.CodeUsage, "--uses: %q is not a valid name of a deployment", name).
				WithHint("`writ deployment list` shows the names")
		case name == own:
			return writ.Errorf(writ.CodeUsage, "--uses names %s, the deployment of the script", name).
				WithHint("leave it out: a script may change the resources of its own deployment")
		case slices.Contains(o.Uses[:i], name):
			return writ.Errorf(writ.CodeUsage, "--uses names %s twice", name).WithHint("name it once")
		}
	}
	return nil
}

// AddTask adds the flags that describe the task.
func (o *OrderFlags) AddTask(env *cli.Env, c *cobra.Command) {
	o.Own.Add(c)
	f := c.Flags()
	f.StringArrayVarP(&o.Params, "param", "p", nil, "parameter as name=value (repeatable)")
	f.StringVar(&o.ParamsFile, "params", "", "file (YAML or JSON) with parameters")
	f.StringVar(&o.Datacenter, "dc", "", "name or id of the datacenter, or \"any\"")
	f.StringArrayVar(&o.labels, "select", nil,
		"with --dc any: label=value, or region=NAME, that the datacenter must have (repeatable)")
	f.StringVar(&o.Deployment, "deployment", "",
		"deployment of the script: NAME, or NAME@BASE with the revision on which the plan is based")
	f.StringArrayVar(&o.Uses, "uses", nil,
		"another deployment of the project whose resources the script may change; they keep their owner (repeatable)")
	f.DurationVar(&o.Deadline, "deadline", DefaultDeadline, "time limit of the run")
	cli.InRange(f, "deadline", &o.Deadline, time.Second, identity.MaxDeadline)
	f.IntVar(&o.MaxCalls, "max-calls", scripts.UsualCalls, "maximum number of calls of the script")
	cli.InRange(f, "max-calls", &o.MaxCalls, 1, scripts.MaxCalls)
	o.AddDeletions(c)
	f.StringArrayVar(&o.Secrets, "secret", nil,
		"secret whose name the script computes, or the version of a secret to use: NAME or NAME@VERSION (repeatable)")
	f.StringArrayVar(&o.Images, "image", nil,
		"image at a registry whose reference the script computes, such as docker.io/library/nginx:1.27 (repeatable)")
	if err := c.RegisterFlagCompletionFunc("param", o.completeParams); err != nil {
		panic(err) // the flag was defined above
	}
	env.CompleteFlag(c, "uses", cli.SuggestDeployments)
	env.CompleteFlag(c, "dc", func(ctx context.Context, c *client.Client) []string {
		return append(cli.SuggestDatacenters(ctx, c), AnyDatacenter)
	})
}

// AddDeletions adds the flags that allow a script to delete data.
func (o *OrderFlags) AddDeletions(c *cobra.Command) {
	f := c.Flags()
	f.Var(&o.Destructive, "destructive",
		"allow the script to delete or overwrite data; with KIND/NAME or KIND/PREFIX*, separated by "+
			"commas, only these")
	f.Lookup("destructive").NoOptDefVal = bareFlag
	f.Var(&o.Prune, "prune",
		"delete the resources of the deployment that the script does not name, when all calls have succeeded; with "+
			"KIND/NAME, separated by commas, only these")
	f.Lookup("prune").NoOptDefVal = bareFlag
}

// Order builds the order from the flags. It requests the state of the datacenters only if it must choose one, and the
// list of secrets only if the script uses some.
func Order(
	ctx context.Context, env *cli.Env, c *client.Client, roster *identity.Roster, script client.Script, o *OrderFlags,
) (client.Order, error) {
	order := client.Order{Script: script, Expires: o.Expires, Deadline: o.Deadline, MaxCalls: o.MaxCalls}
	err := o.Check()
	if err == nil {
		err = checkCalls(script.Report, o.MaxCalls)
	}
	if err != nil {
		return order, err
	}
	WarnOfTimeouts(env, script.Report, o.Deadline)
	if order.Params, err = o.ReadParams(env.Terminal, script.Report.Params); err != nil {
		return order, err
	}
	if order.Deployment, err = ParseDeployment(o.Deployment); err != nil {
		return order, err
	}
	order.Uses = o.Uses
	if order.Project, err = cli.ProjectOf(c, roster); err != nil {
		return order, err
	}
	if order.Datacenter, err = ChooseDatacenter(ctx, env, c, roster, o, &order); err != nil {
		return order, err
	}
	if o.Offline {
		order.Secrets = client.FirstVersions(o.SecretsOf(script))
		return order, registry.ResolveImages(ctx, &order, roster, o.Images, registry.Offline)
	}
	if err := resolveBase(ctx, c, &order, o); err != nil {
		return order, err
	}
	order.Secrets, err = c.Secrets.Resolve(ctx, roster.Datacenter(order.Datacenter), order.Project, o.SecretsOf(script))
	if err != nil && o.Planning && slices.Contains(NoPreview, writ.CodeOf(err)) {
		env.Warn("%v: the plan uses their first versions", err)
		order.Secrets, err = client.FirstVersions(o.SecretsOf(script)), nil
	}
	if err != nil {
		return order, err
	}
	err = resolveImages(ctx, c, roster, &order, o.Images)
	if err != nil && o.Planning {
		env.Warn("%v: the plan has no digests of images", err)
		env.Note("  %s", writ.AsError(err).Hint)
		err = nil
	}
	return order, err
}

// checkCalls returns an error if every run of a script makes more calls than the flag --max-calls allows.
func checkCalls(r check.Report, most int) error {
	if r.LeastCalls <= most {
		return nil
	}
	return writ.Errorf(writ.CodeScriptLimit, "the script makes %d calls or more, and --max-calls allows %d", r.LeastCalls,
		most).
		WithHint("give --max-calls %d or more", r.LeastCalls)
}

// NeededCalls names the limit of calls that a script needs, "" if the default is enough.
func NeededCalls(r check.Report) string {
	if r.LeastCalls <= scripts.UsualCalls {
		return ""
	}
	return fmt.Sprintf("%d or more; --max-calls %d or more is required", r.LeastCalls, r.LeastCalls)
}

// resolveBase sets the base of the order to the newest revision of its deployment, unless the user named a revision. A
// plan always uses the newest one.
func resolveBase(ctx context.Context, c *client.Client, order *client.Order, o *OrderFlags) error {
	if o.Planning || o.Deployment == "" || strings.Contains(o.Deployment, "@") {
		return nil
	}
	revision, err := c.Orders.Revision(ctx, *order)
	if slices.Contains(NoPreview, writ.CodeOf(err)) {
		return writ.Errorf(writ.CodeOf(err), "cannot read the newest revision of the deployment %s: %s", o.Deployment,
			writ.AsError(err).Message).
			WithHint("name the revision that this script changes: --deployment %s@REVISION, or %s@0 for a new deployment",
				o.Deployment, o.Deployment)
	}
	if err != nil {
		return err
	}
	order.Deployment.Base = revision
	return nil
}

// AnyDatacenter makes the client choose a datacenter.
const AnyDatacenter = "any"

// ChooseDatacenter returns the datacenter that the flags select. For "any", it chooses a datacenter with room for the
// order. It does not consider the room if order is nil.
func ChooseDatacenter(ctx context.Context, env *cli.Env, c *client.Client, roster *identity.Roster, o *OrderFlags,
	order *client.Order) (writ.DatacenterID, error) {
	labels, err := cli.Pairs(o.labels, "--select")
	if err == nil {
		err = cli.CheckLabels(labels, "--select")
	}
	if err != nil {
		return "", err
	}
	switch {
	case o.Datacenter == AnyDatacenter:
		var needs []client.Need
		if order != nil {
			plan, err := order.Plan(ctx, roster)
			if err != nil {
				return "", err
			}
			needs = client.Needs(plan, order.Project.ID)
		}
		choice, err := c.Orders.Choose(ctx, roster, labels, needs)
		if err != nil {
			return "", err
		}
		for _, line := range choice.Explain() {
			env.Note("  %s", line)
		}
		return choice.Datacenter.ID, nil
	case len(labels) > 0:
		return "", writ.Errorf(writ.CodeUsage, "--select chooses among datacenters").WithHint("add --dc any")
	case o.Datacenter == "" && len(roster.Datacenters) > 1:
		return "", client.SeveralDatacenters(roster).WithHint("choose with --dc NAME, or --dc any")
	}
	d, err := client.TheDatacenter(roster, o.Datacenter)
	if err != nil {
		return "", err
	}
	return d.ID, nil
}

// ReadParams reads the parameters of --params and -p. Parameters of -p take precedence.
func (o *OrderFlags) ReadParams(in *terminal.Terminal, known scripts.Params) (map[string]any, error) {
	given := make(map[string]any)
	if o.ParamsFile != "" {
		var err error
		if given, err = readParamsFile(in, o.ParamsFile, known); err != nil {
			return nil, err
		}
	}
	for _, p := range o.Params {
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

// ParseDeployment reads "NAME" or "NAME@BASE". BASE is the revision that the deployment must have. An empty text is no
// deployment.
func ParseDeployment(s string) (identity.Deployment, error) {
	if s == "" {
		return identity.Deployment{}, nil
	}
	name, base, ok := strings.Cut(s, "@")
	n := 0
	if ok {
		var err error
		if n, err = strconv.Atoi(base); err != nil || n < 0 {
			return identity.Deployment{}, writ.Errorf(writ.CodeUsage, "--deployment %q: %q is not a revision", s, base).
				WithHint("it looks like web@12")
		}
	}
	if !writ.ValidName(name) {
		return identity.Deployment{}, writ.Errorf(writ.CodeUsage, "--deployment %q: %q is not a valid name", s, name).
			WithHint("it looks like web or web@12: lower-case letters, digits and hyphens")
	}
	return identity.Deployment{Name: name, Base: n}, nil
}

// NoPreview lists the errors that mean that no datacenter can preview a plan now.
var NoPreview = []writ.Code{
	writ.CodeUnreachable, writ.CodeDatacenterAway, writ.CodeTimeout, writ.CodeVerbUnsupported, writ.CodeTooLarge,
}

// ParseSecret parses NAME or NAME@VERSION. Without a version, it returns 0.
func ParseSecret(word string) (name string, version int, err error) {
	name, text, given := strings.Cut(word, "@")
	if !writ.ValidName(name) {
		return "", 0, writ.Errorf(writ.CodeUsage, "%q is not a valid name of a secret", name).
			WithHint("it looks like db-password, or db-password@2")
	}
	if given {
		if version, err = strconv.Atoi(text); err != nil || version < 1 || version > identity.MaxSecretVersion ||
			strconv.Itoa(version) != text {
			return "", 0, writ.Errorf(writ.CodeUsage, "%q is not a version", text).WithHint("it looks like db-password@2")
		}
	}
	return name, version, nil
}
