package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"writ"
	"writ/cmd/writ/internal/client"
	"writ/cmd/writ/internal/terminal"
	"writ/identity"
)

// adoptWithin is how long a command waits by default until a roster is in force in every datacenter: each that is connected has it in less than a
// second.
const adoptWithin = 30 * time.Second

// adoptFlags say how long to wait until a new roster is in force in every datacenter.
type adoptFlags struct {
	within time.Duration
	noWait bool
}

func (f *adoptFlags) add(c *cobra.Command) {
	c.Flags().DurationVar(&f.within, "adopt-timeout", adoptWithin,
		"how long to wait until every datacenter has signed that the new roster is in force there (exit code 6)")
	inRange(c.Flags(), "adopt-timeout", &f.within, time.Second, longest)
	c.Flags().BoolVar(&f.noWait, "no-wait", false, "do not wait until the datacenters have the new roster")
}

// awaitAdoption waits until every datacenter has signed that a roster is in force there, but those that are new in it: these have no earlier one.
func (a *app) awaitAdoption(ctx context.Context, c *client.Client, roster *identity.Roster, f adoptFlags, but ...string) error {
	var ids []writ.DatacenterID
	var names []string
	for _, d := range roster.Datacenters {
		if !slices.Contains(but, d.Name) {
			ids, names = append(ids, d.ID), append(names, d.Name)
		}
	}
	if f.noWait || len(ids) == 0 {
		return nil
	}
	err := c.AwaitAdoption(ctx, roster, ids, f.within)
	switch {
	case err != nil && isInterrupt(ctx, err):
		return terminal.Interrupted(fmt.Sprintf("version %d of the roster is in force; `writ roster show` says which datacenters have it", roster.Version))
	case err != nil:
		return err
	}
	a.Note("version %d of the roster is in force in %s, as signed by their supervisors", roster.Version, strings.Join(names, ", "))
	return nil
}
