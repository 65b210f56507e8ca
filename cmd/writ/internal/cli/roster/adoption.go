package roster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"writ"
	"writ/cmd/writ/internal/cli"
	"writ/cmd/writ/internal/client"
	"writ/cmd/writ/internal/terminal"
	"writ/identity"
)

// adoptWithin is the default time limit of the wait until a roster is in force in every datacenter. A connected
// datacenter adopts a roster in less than a second.
const adoptWithin = 30 * time.Second

// adoptFlags configure the wait until a new roster is in force in every datacenter.
type adoptFlags struct {
	within time.Duration
	noWait bool
}

func (f *adoptFlags) add(c *cobra.Command) {
	c.Flags().DurationVar(&f.within, "adopt-timeout", adoptWithin,
		"time limit of the wait until every datacenter has signed that the new roster is in force (exit code 6)")
	cli.InRange(c.Flags(), "adopt-timeout", &f.within, time.Second, cli.Longest)
	c.Flags().BoolVar(&f.noWait, "no-wait", false, "do not wait until all datacenters have the new roster")
}

// amendment holds the texts about a change of the roster for each stage of its adoption. Empty texts are not shown.
type amendment struct {
	change string // statement about the signed roster: "bob is removed"
	effect string // statement about datacenters with the roster: "signatures of bob are rejected"
	before string // behaviour of a datacenter without the roster: "still accepts signatures of bob"
}

// showSigned reports a change that is signed and stored at the coordinator. No datacenter has confirmed it yet. If the
// roster already contained the change, the command has signed no new version.
func showSigned(env *cli.Env, roster client.Amended, m amendment) {
	if !roster.Signed {
		env.Note("unchanged: version %d of the roster already contains this: %s", roster.Version, m.change)
		return
	}
	env.Note("signed version %d of the roster: %s", roster.Version, m.change)
}

// amend signs a change of the roster, shows it, and waits until every datacenter has adopted it, except those that
// `but` names. `show` reports the signed version with showSigned, and returns the texts about the change.
func amend(
	ctx context.Context, env *cli.Env, c *client.Client, f adoptFlags, change func(next *identity.Roster) error,
	show func(r client.Amended) (amendment, error), but ...string,
) error {
	roster, err := c.Roster.Amend(ctx, change)
	if err != nil {
		return err
	}
	m, err := show(roster)
	if err != nil {
		return err
	}
	return awaitAdoption(ctx, env, c, roster, f, m, but...)
}

// awaitAdoption waits until every datacenter has signed that a roster is in force there, and then reports the effect of
// the change. It skips the datacenters that `but` names: they are new and have no earlier roster.
func awaitAdoption(
	ctx context.Context, env *cli.Env, c *client.Client, amended client.Amended, f adoptFlags, m amendment, but ...string,
) error {
	roster := amended.Roster
	var ids []writ.DatacenterID
	var names []string
	for _, d := range roster.Datacenters {
		if !slices.Contains(but, d.Name) {
			ids, names = append(ids, d.ID), append(names, d.Name)
		}
	}
	switch {
	case len(ids) == 0:
		showProved(env, roster, m, "in force: no datacenter has an earlier version")
		return nil
	case f.noWait:
		env.Note("%s", m.unproved(roster, names))
		return nil
	}
	env.Note("… waiting for a signed confirmation from %s (at most %s)", strings.Join(names, ", "), f.within)
	err := c.Roster.AwaitAdoption(ctx, roster, ids, f.within)
	pending, isPending := errors.AsType[*client.AdoptionPending](err)
	switch {
	case isPending && cli.IsInterrupt(ctx, err):
		return terminal.Interrupted(m.unproved(roster, pending.Missing))
	case writ.CodeOf(err) == writ.CodeNotAdopted && m.before != "":
		e := *writ.AsError(err)
		return e.WithHint("until a datacenter has this version, it %s; `writ roster show` lists the datacenters that have it", m.before)
	case err != nil:
		return err
	}
	showProved(env, roster, m, "in force in "+strings.Join(names, ", ")+", confirmed by signature")
	return nil
}

func showProved(env *cli.Env, roster *identity.Roster, m amendment, proof string) {
	env.Done("version %d of the roster is %s", roster.Version, proof)
	if m.effect != "" {
		env.Note("%s", m.effect)
	}
}

// unproved returns the text for a command that ends before all datacenters have signed. missing describes these
// datacenters.
func (m amendment) unproved(roster *identity.Roster, missing []string) string {
	text := fmt.Sprintf("version %d of the roster is signed (%s), but these datacenters have not confirmed it: %s",
		roster.Version, m.change, strings.Join(missing, "; "))
	if m.before != "" {
		text += "\nuntil a datacenter has this version, it " + m.before
	}
	return text + "\n`writ roster show` shows which datacenters have it"
}
