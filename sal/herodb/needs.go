package herodb

import "writ/sal/needs"

// Needs returns the requirements of databases on a host.
func (d *Driver) Needs() []needs.Need {
	o := d.offer()
	return []needs.Need{
		{
			Name: "an engine", Use: "there are no databases", Vital: true, Look: o.checkEngine,
			Fix: "apt-get install -y redis-server (6.2 or newer) or valkey-server (7.2 or newer)",
		},
		{
			Name: "the engines named", Use: "no databases are made with missing engines", Look: o.checkNamed,
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
