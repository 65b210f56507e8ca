package herodb

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"

	"writ"
	"writ/sal/needs"
)

// EngineNames returns the names of all supported engines.
func EngineNames() []string {
	names := make([]string, len(engines))
	for i, e := range engines {
		names[i] = e.name
	}
	return names
}

// Offered returns the names of the engines for new databases, in order of preference. The host may lack some of them.
func (d *Driver) Offered() []string {
	if len(d.Engines) > 0 {
		return d.Engines
	}
	var names []string
	for _, e := range engines {
		if e.weak == "" {
			names = append(names, e.name)
		}
	}
	return names
}

// all returns the names of all engines, the offered ones first.
func (d *Driver) all() []string {
	names := slices.Clone(d.Offered())
	for _, e := range engines {
		if !slices.Contains(names, e.name) {
			names = append(names, e.name)
		}
	}
	return names
}

// refused returns the reason why an engine of this host is not used for new databases, or "".
func (d *Driver) refused(p program) string {
	switch {
	case slices.Contains(d.Offered(), p.name) && (p.least == "" || needs.AtLeast(p.version, p.least)):
		return ""
	case slices.Contains(d.Offered(), p.name):
		return "it is older than " + p.least
	case len(d.Engines) > 0:
		return "--engines does not name it"
	default:
		return p.weak
	}
}

// found returns the engines of this host, those for new databases first.
func (d *Driver) installed(ctx context.Context) []writ.Engine {
	var serve, refused []writ.Engine
	for _, name := range d.all() {
		p, err := d.program(ctx, name)
		if errors.Is(err, exec.ErrNotFound) {
			continue
		}
		e := writ.Engine{Name: name, Version: p.version, Refused: d.refused(p)}
		if err != nil {
			e.Refused = "it does not work: " + err.Error()
		}
		if e.Refused == "" {
			serve = append(serve, e)
		} else {
			refused = append(refused, e)
		}
	}
	return append(serve, refused...)
}

// about describes engines: serve has those in use with their weakness, refused the others with the reason.
func about(all []writ.Engine) (serve, refused []string) {
	for _, f := range all {
		e, _ := engineOf(f.Name)
		switch {
		case f.Refused != "":
			refused = append(refused, fmt.Sprintf("%s (%s)", f, f.Refused))
		case e.weak != "":
			serve = append(serve, fmt.Sprintf("%s (%s)", f, e.weak))
		default:
			serve = append(serve, f.String())
		}
	}
	return serve, refused
}

// detail describes the engines in use and the memory limits of databases.
func (d *Driver) detail(found []writ.Engine) string {
	serve, _ := about(found)
	if len(serve) == 0 {
		return "no engine: apt-get install -y redis-server"
	}
	return fmt.Sprintf("%s; memory is bounded by %s; they run %s", strings.Join(serve, ", "), d.bounded(),
		d.Accounts.About())
}
