package herodb

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"

	"writ/sal/needs"
)

// errNotFound is the error of an engine that the host does not have.
var errNotFound = exec.ErrNotFound

// detail says which engines there are and what bounds the memory of databases.
func (d *Driver) detail(ctx context.Context) string {
	var have []string
	for _, e := range engines {
		p, err := d.program(ctx, e.name)
		switch {
		case errors.Is(err, errNotFound):
		case err != nil:
			have = append(have, e.name+" (it does not work: "+err.Error()+")")
		case p.weak != "" && !d.Weak:
			have = append(have, fmt.Sprintf("%s %s (not used: %s)", e.name, p.version, p.weak))
		case p.weak != "":
			have = append(have, fmt.Sprintf("%s %s (%s)", e.name, p.version, p.weak))
		case p.least != "" && !needs.AtLeast(p.version, p.least):
			have = append(have, fmt.Sprintf("%s %s (not used: older than %s)", e.name, p.version, p.least))
		default:
			have = append(have, e.name+" "+p.version)
		}
	}
	if len(have) == 0 {
		return "no engine: apt-get install -y redis-server"
	}
	return fmt.Sprintf("%s; memory is bounded by %s; they run %s", strings.Join(have, ", "), d.bounded(), d.Accounts.About())
}
