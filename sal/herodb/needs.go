package herodb

import (
	"context"
	"errors"

	"writ"
	"writ/sal/needs"
)

// Needs are what databases need of a host.
func (d *Driver) Needs() []needs.Need {
	return []needs.Need{
		{
			Name: "an engine", Use: "there are no databases", Vital: true, Look: d.lookEngine,
			Fix: "apt-get install -y redis-server (6.2 or newer) or valkey-server (7.2 or newer)",
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

func (d *Driver) lookEngine(ctx context.Context) (string, error) {
	p, err := d.choose(ctx, nil, "")
	if err != nil {
		return "", errors.New(writ.AsError(err).Message)
	}
	return p.path + ", " + p.version, nil
}
