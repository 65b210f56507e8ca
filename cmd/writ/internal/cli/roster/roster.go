// Package roster contains the commands that create and change the roster of a cluster, and that show its content: init,
// roster, user, project, ca, coordinator, dc, pki and whoami.
package roster

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"writ"
	"writ/cmd/writ/internal/cli"
	"writ/cmd/writ/internal/client"
	"writ/cmd/writ/internal/terminal"
	"writ/identity"
)

// Commands returns the commands of this group.
func Commands(env *cli.Env) []*cobra.Command {
	return slices.Concat(
		cli.InGroup(cli.Administration, initCommand(env)),
		cli.InGroup(cli.Administration,
			env.ClientCommands(whoamiCommand(env), coordinatorCommand(env), datacenterCommand(env), pkiCommand(env),
				userCommand(env), authorityCommand(env), projectCommand(env), rosterCommand(env))...),
	)
}

func rosterCommand(env *cli.Env) *cobra.Command {
	return cli.Family("roster", "Show the roster, and renew it", rosterShowCommand(env), rosterRenewCommand(env))
}

// rosterView holds the header and settings of a roster.
type rosterView struct {
	Cluster   string    `json:"cluster"`
	Version   int       `json:"version"`
	Digest    string    `json:"digest"`
	Created   time.Time `json:"created"`
	RenewFrom time.Time `json:"renew_from"`
	Expires   time.Time `json:"expires"`
	Operators []string  `json:"root_operators"`
	Threshold int       `json:"threshold"`
	Manual    []string  `json:"manual_approval"` // names of datacenters
	Silence   []string  `json:"node_silence"`    // sentences about datacenters with other timeouts than the default
	Adopted   []adopter `json:"adopted"`
}

// adopter is a datacenter with the version of the roster in force there, as its supervisor has signed it just now.
type adopter struct {
	Datacenter string      `json:"datacenter"`
	Version    int         `json:"version,omitempty"` // 0 if unknown
	Error      *writ.Error `json:"error,omitempty"`   // reason for an unknown version
}

func rosterShowCommand(env *cli.Env) *cobra.Command {
	return &cobra.Command{
		Use:     "show",
		Short:   "Show the roster in force, its expiry, and the datacenters that have it",
		Example: "  writ roster show",
		Args:    cli.Exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, roster, err := env.Cluster(cmd.Context())
			if err != nil {
				return err
			}
			return showRoster(cmd.Context(), env, c, roster)
		},
	}
}

func rosterRenewCommand(env *cli.Env) *cobra.Command {
	var adopt adoptFlags
	renew := &cobra.Command{
		Use:   "renew",
		Short: "Sign the next version of the roster, with the same content and a later expiry",
		Long: `Signs the next version of the roster. You must be a root operator. It has the same content as the newest
version and is valid for another 90 days. After a roster expires, datacenters start no new work and nodes accept no
jobs. Open runs wait for the renewal.

Renew a roster after half of its lifetime. From then on, every signing command warns and the dashboard shows a
notice. The metric writ_roster_renew_seconds gives the time of renewal.`,
		Example: "  writ roster renew",
		Args:    cli.Exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := env.Client()
			if err != nil {
				return err
			}
			roster, err := c.Roster.Renew(cmd.Context())
			if err != nil {
				return err
			}
			m := amendment{
				change: "it is valid until " + roster.Expires.Format(time.DateOnly),
				before: "uses the previous version, until that expires",
			}
			showSigned(env, roster, m)
			waited := awaitAdoption(cmd.Context(), env, c, roster, adopt, m)
			if err := showRoster(cmd.Context(), env, c, roster.Roster); err != nil {
				return err
			}
			return waited
		},
	}
	adopt.add(renew)
	return renew
}

// manualApprovals lists the datacenters in which each new node requires an approval.
func manualApprovals(r *identity.Roster) []string {
	names := []string{}
	for _, d := range r.Datacenters {
		if d.ManualApproval {
			names = append(names, d.Name)
		}
	}
	return names
}

// silences describes the silent and lost timeouts of datacenters that differ from the default.
func silences(r *identity.Roster) []string {
	lines := []string{}
	for i := range r.Datacenters {
		if d := &r.Datacenters[i]; d.NodeSilence() != identity.DefaultSilence {
			lines = append(lines, d.Name+": "+silenceText(d))
		}
	}
	return lines
}

// showRoster shows a roster, and the version in force in each datacenter. It returns an error if a proof from the
// coordinator is invalid.
func showRoster(ctx context.Context, env *cli.Env, c *client.Client, r *identity.Roster) error {
	digest, err := r.Digest()
	if err != nil {
		return err
	}
	v := rosterView{
		string(r.Cluster), r.Version, digest.String(), r.Created, r.RenewFrom(), r.Expires, r.Operators, r.Threshold,
		manualApprovals(r), silences(r), []adopter{},
	}
	adopted, err := c.Roster.Adopted(ctx, r)
	if err != nil {
		env.Warn("cannot list the datacenters in which the roster is in force: %v", err)
	}
	var lie error
	var lines []string
	for _, d := range adopted {
		v.Adopted = append(v.Adopted, adopter{d.Name, d.Version, writ.AsError(d.Err)})
		line := fmt.Sprintf("%s: version %d", d.Name, d.Version)
		if d.Err != nil {
			line = fmt.Sprintf("%s: %s", d.Name, writ.AsError(d.Err).Message)
			if code := writ.CodeOf(d.Err); code == writ.CodeUnverified || code == writ.CodeRosterFork {
				line, lie = fmt.Sprintf("%s: %s: %s", d.Name, code, writ.AsError(d.Err).Message), d.Err
			}
		}
		lines = append(lines, line)
	}
	err = env.Print(terminal.Record(v, strconv.Itoa(v.Version),
		terminal.Field{Title: "cluster", Value: v.Cluster},
		terminal.Field{Title: "version", Value: strconv.Itoa(v.Version)},
		terminal.Field{Title: "digest", Value: v.Digest},
		terminal.Field{Title: "created", Value: v.Created.Format(time.RFC3339)},
		terminal.Field{Title: "renew from", Value: v.RenewFrom.Format(time.RFC3339)},
		terminal.Field{Title: "expires", Value: v.Expires.Format(time.RFC3339)},
		terminal.Field{Title: "root operators", Value: strings.Join(v.Operators, ", ")},
		terminal.Field{Title: "threshold", Value: strconv.Itoa(v.Threshold)},
		terminal.Field{Title: "manual approval", Value: strings.Join(v.Manual, ", ")},
		terminal.Field{Title: "silent nodes", Value: strings.Join(v.Silence, "; ")},
		terminal.Field{Title: "in force in", Value: strings.Join(lines, "; ")}))
	if err != nil {
		return err
	}
	return lie
}
