package roster

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"writ"
	"writ/cmd/writ/internal/cli"
	"writ/cmd/writ/internal/client"
	"writ/cmd/writ/internal/terminal"
	"writ/identity"
	"writ/identity/sshsig"
)

// datacenterView is a datacenter as recorded in the roster.
type datacenterView struct {
	writ.Datacenter
	Supervisor     string  `json:"supervisor"` // fingerprint of its key
	Enabled        bool    `json:"enabled"`
	ManualApproval bool    `json:"manual_approval"`
	SilentAfter    float64 `json:"silent_after_seconds"`
	LostAfter      float64 `json:"lost_after_seconds"`
}

func datacenterShowCommand(env *cli.Env) *cobra.Command {
	c := &cobra.Command{
		Use:   "show NAME",
		Short: "Show the settings of a datacenter",
		Long: `Shows the supervisor and the settings of a datacenter in the newest roster. Root operators signed this
roster, and your machine verifies it. ` + "`writ dc set`" + ` changes a setting, and ` + "`writ dc list`" + ` shows the
health of datacenters.`,
		Example: "  writ dc show dc1\n  writ dc show dc1 -o json",
		Args:    cli.Exactly("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			_, roster, err := env.Cluster(cmd.Context())
			if err != nil {
				return err
			}
			d, err := client.FindDatacenter(roster, args[0])
			if err != nil {
				return err
			}
			silence := d.NodeSilence()
			return env.Print(terminal.Record(datacenterView{
				d.Datacenter, sshsig.Fingerprint(d.SupervisorKey), d.Enabled, d.ManualApproval, silence.Silent.Seconds(),
				silence.Lost.Seconds(),
			}, d.Name,
				terminal.Field{Title: "datacenter", Value: d.Name},
				terminal.Field{Title: "id", Value: string(d.ID)},
				terminal.Field{Title: "region", Value: d.Region},
				terminal.Field{Title: "labels", Value: writ.LabelsText(d.Labels)},
				terminal.Field{Title: "supervisor", Value: sshsig.Fingerprint(d.SupervisorKey)},
				terminal.Field{Title: "enabled", Value: cli.YesNo(d.Enabled)},
				terminal.Field{Title: "manual approval", Value: cli.YesNo(d.ManualApproval)},
				terminal.Field{Title: "nodes are silent after", Value: silence.Silent.String()},
				terminal.Field{Title: "nodes are lost after", Value: silence.Lost.String()}))
		},
	}
	c.ValidArgsFunction = env.Completion(cli.SuggestDatacenters)
	return c
}

func datacenterSetCommand(env *cli.Env) *cobra.Command {
	var manual bool
	var silent, lost time.Duration
	var adopt adoptFlags
	c := &cobra.Command{
		Use:   "set NAME",
		Short: "Change a setting of a datacenter",
		Long: `Signs the next version of the roster. You must be a root operator. It changes settings of a datacenter.

With --manual-approval, a node that joins with a token waits until an admin approves it, like a node without a token.
Approved nodes stay.

A node that sends no message for --silent-after gets no new work, and is offline in ` + "`writ usage --nodes`" + `. After
--lost-after it is lost: calls that it may have started fail or wait, and all other calls move to other nodes. Choose
longer times for unreliable links, and shorter ones to move work sooner. --silent-after must be between 3s and 10m,
and --lost-after between 15s and 24h and at least twice --silent-after. A standby supervisor uses the same times.`,
		Example: `  writ dc set dc1 --manual-approval
  writ dc set dc1 --manual-approval=false
  writ dc set ship1 --silent-after 2m --lost-after 30m`,
		Args: cli.Exactly("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			var settings client.DatacenterSettings
			changed := cmd.Flags().Changed
			if changed("manual-approval") {
				settings.ManualApproval = &manual
			}
			if changed("silent-after") {
				settings.SilentAfter = &silent
			}
			if changed("lost-after") {
				settings.LostAfter = &lost
			}
			if settings == (client.DatacenterSettings{}) {
				return writ.Errorf(writ.CodeUsage, "no setting is given").WithHint("`writ dc set --help` lists the settings")
			}
			c, err := env.Client()
			if err != nil {
				return err
			}
			return amend(cmd.Context(), env, c, adopt,
				func(next *identity.Roster) error { return client.SetDatacenter(next, args[0], settings) },
				func(r client.Amended) (amendment, error) {
					m := amendment{
						change: fmt.Sprintf("in %s %s", args[0], settingsText(r.Datacenters.Named(args[0]))),
						before: "uses its earlier settings",
					}
					showSigned(env, r, m)
					return m, nil
				})
		},
	}
	f, usual := c.Flags(), identity.DefaultSilence
	f.BoolVar(&manual, "manual-approval", false, "nodes that join with a token also wait for approval")
	f.DurationVar(&silent, "silent-after", usual.Silent, "time without a message from a node until it is silent and offline")
	f.DurationVar(&lost, "lost-after", usual.Lost, "time without a message from a node until it is lost")
	c.ValidArgsFunction = env.Completion(cli.SuggestDatacenters)
	adopt.add(c)
	return c
}

// settingsText describes the settings of a datacenter.
func settingsText(d *identity.Datacenter) string {
	joins := "a token is enough for a node"
	if d.ManualApproval {
		joins = "each new node waits for `writ node approve`"
	}
	return joins + "; " + silenceText(d)
}

// silenceText formats the silent and lost timeouts of a datacenter.
func silenceText(d *identity.Datacenter) string {
	silence := d.NodeSilence()
	return fmt.Sprintf("a node is silent after %s, and lost after %s", silence.Silent, silence.Lost)
}
