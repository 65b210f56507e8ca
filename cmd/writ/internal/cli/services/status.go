package services

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"writ"
	"writ/cmd/writ/internal/cli"
	"writ/cmd/writ/internal/cli/runview"
	"writ/cmd/writ/internal/terminal"
	"writ/coord/api"
	"writ/identity"
	"writ/internal/endpoint"
	"writ/ledger"
)

func statusCommand(env *cli.Env) *cobra.Command {
	var datacenter string
	c := &cobra.Command{
		Use:   "status DEPLOYMENT",
		Short: "Show the status of a deployment on one screen: resources, last run, problems and the next command",
		Long: `Shows a deployment: the newest revision with its signer, and the result of its run. Then the resources
follow with their states, health and addresses, and each problem with the next command.

The command verifies the signatures of the revision and of the run's result. States, health and addresses are as the
coordinator has them. While the datacenter does not answer, the command shows the last known ones with their age.

The exit code is 0 without a problem, also while a run changes the deployment. It is 1 with a problem, and 8 if the only
problem is that the state is not current.`,
		Example: "  writ status web\n  writ status web --project shop --dc dc1\n  writ status web -o json",
		Args:    cli.Exactly("DEPLOYMENT"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return showStatus(cmd.Context(), env, args[0], datacenter)
		},
	}
	c.ValidArgsFunction = env.Completion(cli.SuggestDeployments)
	cli.DatacenterFlag(env, c, &datacenter, "datacenter of the deployment, if the name is ambiguous")
	return c
}

// Verdicts of a status, the best first.
const (
	verdictWell     = "well"
	verdictChanging = "changing" // an open run, and no problem
	verdictUnknown  = "unknown"  // outdated facts are the only problem
	verdictWrong    = "wrong"
)

// status is the JSON and YAML form of a status.
type status struct {
	Deployment string `json:"deployment"`
	Project    string `json:"project"`
	Datacenter string `json:"datacenter"`
	Verdict    string `json:"verdict"`
	// AsOf is the time of the last message from a disconnected datacenter. It is zero if the states are current, or if
	// the datacenter never sent a message.
	AsOf     time.Time       `json:"as_of,omitzero"`
	Revision *statusRevision `json:"revision,omitempty"` // nil if its signed text cannot be read or verified
	Run      *api.Run        `json:"run,omitempty"`      // of the newest revision, nil if it was deleted
	// Submission is a later submission that has created no revision: it waits, or was refused.
	Submission *api.Run             `json:"submission,omitempty"`
	Resources  []api.ListedResource `json:"resources"`
	Problems   []problem            `json:"problems"`
}

// statusRevision describes the signed text of the newest revision.
type statusRevision struct {
	Number      int                   `json:"number"`
	Signer      string                `json:"signer"`
	Certificate *identity.Certificate `json:"certificate,omitempty"`
	Revoked     bool                  `json:"revoked,omitempty"` // the signing key or its owner
	Signed      time.Time             `json:"signed"`            // by the clock of the signer
	Script      string                `json:"script"`
}

// problem is something that a person should know, with the command to type next.
type problem struct {
	About string `json:"about"` // "container/web", "run ID", "datacenter dc1"
	What  string `json:"what"`  // "is unhealthy"
	Next  string `json:"next,omitempty"`
	Does  string `json:"does,omitempty"` // the effect of the command, if a person must decide about it

	outdated bool // the problem is only the age of the facts
}

func showStatus(ctx context.Context, env *cli.Env, name, datacenter string) error {
	a, err := newAssessor(ctx, env, name, datacenter)
	if err != nil {
		return err
	}
	s, forged := a.assess(ctx)
	if cli.IsInterrupt(ctx, forged) {
		return terminal.Interrupted("")
	}
	if s == nil {
		return forged
	}
	err = env.Print(terminal.View{
		Data: s, Names: []string{name}, Text: func(wide bool) string { return statusText(s, wide) },
	})
	switch {
	case err != nil:
		return err
	case forged != nil:
		return forged
	case s.Verdict == verdictWrong:
		return &terminal.ExitError{Exit: writ.ExitFailed}
	case s.Verdict == verdictUnknown:
		return &terminal.ExitError{Exit: writ.ExitUnreachable}
	}
	return nil
}

// Limits of a screen. The JSON form has all resources and problems.
const maxShown, maxProblems = 20, 10

// statusText formats a status for one screen.
func statusText(s *status, wide bool) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s of project %s in %s: %s\n", s.Deployment, s.Project, s.Datacenter, s.summary())
	if !s.AsOf.IsZero() {
		fmt.Fprintf(&b, "  as of: %s, %s ago\n", cli.Clock(s.AsOf), cli.Age(s.AsOf))
	}
	if r := s.Revision; r != nil {
		by := cli.SignedBy(r.Signer, r.Certificate)
		if r.Revoked {
			by += ", whose key was revoked since"
		}
		fmt.Fprintf(&b, "  revision: %d, %s, signed by %s %s ago\n", r.Number, terminal.Clean(r.Script), terminal.Clean(by),
			cli.Age(r.Signed))
	}
	if s.Run != nil {
		fmt.Fprintf(&b, "  run: %s\n", runText(*s.Run))
	}
	if s.Submission != nil {
		fmt.Fprintf(&b, "  later submission: %s\n", runText(*s.Submission))
	}
	if shown := firstOnes(s.Resources); len(shown) > 0 {
		b.WriteString("\n" + statusTable(shown).Text(wide))
		if more := len(s.Resources) - len(shown); more > 0 {
			fmt.Fprintf(&b, "and %d more: writ resource list --deployment %s --project %s --dc %s\n", more,
				cli.ShellWord(s.Deployment), cli.ShellWord(s.Project), cli.ShellWord(s.Datacenter))
		}
	}
	for i, p := range s.Problems {
		if i == 0 {
			b.WriteString("\n")
		}
		if i == maxProblems {
			fmt.Fprintf(&b, "and %s: `-o json` lists all\n", cli.Count(len(s.Problems)-i, "more problem"))
			break
		}
		fmt.Fprintf(&b, "%s %s\n", terminal.Clean(p.About), terminal.Clean(p.What))
		if p.Next != "" {
			fmt.Fprintf(&b, "  next: %s\n", terminal.Clean(p.Next))
		}
		if p.Does != "" {
			fmt.Fprintf(&b, "    %s\n", p.Does)
		}
	}
	return b.String()
}

// firstOnes returns the resources that fit on a screen. If some do not fit, resources with a problem come first.
func firstOnes(all []api.ListedResource) []api.ListedResource {
	if len(all) <= maxShown {
		return all
	}
	troubled := func(r api.ListedResource) int {
		if r.Unheard != nil || ledger.Troubled(r.Resource) {
			return 0
		}
		return 1
	}
	return slices.SortedStableFunc(slices.Values(all), func(a, b api.ListedResource) int {
		return cmp.Compare(troubled(a), troubled(b))
	})[:maxShown]
}

// summary formats the verdict as the end of a sentence.
func (s *status) summary() string {
	switch s.Verdict {
	case verdictWrong:
		return cli.Count(len(s.Problems), "problem")
	case verdictUnknown:
		return "its state is not current"
	case verdictChanging:
		return "a run changes it"
	}
	return "all is well, " + cli.Count(len(s.Resources), "resource")
}

// runText formats a run on one line.
func runText(r api.Run) string {
	text := fmt.Sprintf("%s %s", r.ID, cli.StateClause(writ.RunState(r.State)))
	if took := runview.TookRun(r); took != "" {
		text += " after " + took
	}
	if at := r.Ended; !at.IsZero() {
		text += ", " + cli.Age(at) + " ago"
	}
	if r.Failure != nil {
		text += fmt.Sprintf(": %s: %s", r.Failure.Code, r.Failure.Message)
	}
	return terminal.Clean(text)
}

func statusTable(all []api.ListedResource) terminal.View {
	return terminal.List(nil, all, func(r api.ListedResource) string { return string(r.Kind) + "/" + r.Name },
		cli.Column("KIND", func(r api.ListedResource) string { return string(r.Kind) }),
		cli.Column("NAME", func(r api.ListedResource) string { return r.Name }),
		cli.Column("STATE", func(r api.ListedResource) string {
			if r.Unheard != nil && r.State != "" {
				return "was " + cli.StateText(r.Standing)
			}
			return cli.StateText(r.Standing)
		}),
		cli.Column("ADDRESS", func(r api.ListedResource) string { return strings.Join(endpoint.All(r.Standing), " ") }),
		cli.Column("CHANGED", func(r api.ListedResource) string { return cli.Age(r.Updated) }),
		cli.Wide("CPUS", cli.CPUsCell),
		cli.Wide("MEMORY", cli.MemoryCell),
		cli.Wide("RESTARTS", cli.RestartsCell),
		cli.Wide("RUN", func(r api.ListedResource) string { return string(r.Run) }),
	)
}
