package herodb

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"writ"
	"writ/sal/needs"
)

// Needs returns the requirements of databases on a host.
func (d *Driver) Needs() []needs.Need {
	return []needs.Need{
		{
			Name: "an engine", Use: "there are no databases", Vital: true, Look: d.lookEngine,
			Fix: "apt-get install -y redis-server (6.2 or newer) or valkey-server (7.2 or newer)",
		},
		{
			Name: "the engines named", Use: "no databases are made with those that are not there", Look: d.lookNamed,
			Fix: "install them, or leave them away in writ runner --engines",
		},
		{
			Name: "controllers memory, pids", Use: "nothing bounds the memory of databases but the engine itself, and nothing the number of their processes",
			Fix: needs.ControllersFix, Look: needs.Controllers(d.groups(), "memory", "pids"),
		},
		{
			Name: "users of their own", Use: "engines run as the runner does, as root mostly", Fix: needs.AccountsFix,
			Look: needs.Accounts(d.Accounts),
		},
		{Name: "networks on this host", Use: "databases are on no network, and listen on an address of the node", Fix: "see what networks need", Look: needs.Given(d.Networks != nil)},
	}
}

// lookEngine checks for an engine for new databases and lists the others.
func (d *Driver) lookEngine(ctx context.Context) (string, error) {
	if _, err := d.choose(ctx, nil, ""); err != nil {
		return "", errors.New(writ.AsError(err).Message)
	}
	serve, refused := about(d.found(ctx))
	detail := strings.Join(serve, ", ")
	if len(refused) > 0 {
		detail += "; not used: " + strings.Join(refused, ", ")
	}
	return detail, nil
}

// lookNamed checks for the engines in Driver.Engines.
func (d *Driver) lookNamed(ctx context.Context) (string, error) {
	if len(d.Engines) == 0 {
		return "none; all serve that keep their secret", nil
	}
	found := d.found(ctx)
	var lacking []string
	for _, name := range d.Engines {
		i := slices.IndexFunc(found, func(e writ.Engine) bool { return e.Name == name })
		switch {
		case i < 0:
			lacking = append(lacking, name+" is not on PATH")
		case found[i].Refused != "":
			lacking = append(lacking, fmt.Sprintf("%s: %s", found[i], found[i].Refused))
		}
	}
	if len(lacking) > 0 {
		return "", errors.New(strings.Join(lacking, "; "))
	}
	return strings.Join(d.Engines, ", "), nil
}
