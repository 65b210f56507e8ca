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
			Name: "an engine", Use: "there are no databases", Vital: true, Look: d.checkEngine,
			Fix: "apt-get install -y redis-server (6.2 or newer) or valkey-server (7.2 or newer)",
		},
		{
			Name: "the engines named", Use: "no databases are made with missing engines", Look: d.checkNamed,
			Fix: "install them, or omit them from writ runner --engines",
		},
		{
			Name: "controllers memory, pids",
			Use:  "only the engine itself limits the memory of databases, and the number of their processes is unlimited",
			Fix:  needs.ControllersFix, Look: needs.Controllers(d.groups(), "memory", "pids"),
		},
		{
			Name: "users of their own", Use: "engines run as the user of the runner, usually root",
			Fix:  needs.AccountsFix,
			Look: needs.Accounts(d.Accounts),
		},
		{
			Name: "networks on this host", Use: "databases are on no network, and listen on an address of the node",
			Fix: "see the needs of networks", Look: needs.Given(d.Networks != nil),
		},
	}
}

// checkEngine checks for an engine for new databases and lists the others.
func (d *Driver) checkEngine(ctx context.Context) (string, error) {
	if _, err := d.choose(ctx, nil, ""); err != nil {
		return "", errors.New(writ.AsError(err).Message)
	}
	serve, refused := about(d.installed(ctx))
	detail := strings.Join(serve, ", ")
	if len(refused) > 0 {
		detail += "; not used: " + strings.Join(refused, ", ")
	}
	return detail, nil
}

// checkNamed checks for the engines in Driver.Engines.
func (d *Driver) checkNamed(ctx context.Context) (string, error) {
	if len(d.Engines) == 0 {
		return "none; all engines that protect their secret are used", nil
	}
	found := d.installed(ctx)
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
