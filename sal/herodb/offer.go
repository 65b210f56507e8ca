package herodb

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"

	"writ"
	"writ/sal"
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
func (d *Driver) Offered() []string { return d.offer().names() }

// offer is the choice of engines for new databases on this host.
type offer struct {
	named    []string // Driver.Engines
	look     func(name string) (path string, err error)
	versions *needs.Versions
}

func (d *Driver) offer() *offer { return &offer{d.Engines, d.Look, &d.versions} }

// names returns the names of the engines for new databases, in order of preference.
func (o *offer) names() []string {
	if len(o.named) > 0 {
		return o.named
	}
	var names []string
	for _, e := range engines {
		if e.weak == "" {
			names = append(names, e.name)
		}
	}
	return names
}

// choose returns the first engine in names that this host has, that is used for new databases, and that has the given
// version. Without names, it tries all engines. The error DRIVER_MISSING contains the reason for each engine.
func (o *offer) choose(ctx context.Context, names []string, version string) (program, error) {
	if len(names) == 0 {
		names = o.all()
	}
	var why, where []string
	for _, name := range names {
		p, err := o.program(ctx, name)
		switch {
		case errors.Is(err, exec.ErrNotFound):
			why = append(why, "no "+name)
			where = append(where, name+": "+p.where)
		case err != nil:
			return program{}, err
		case o.refused(p) != "":
			why = append(why, fmt.Sprintf("%s %s, which is not usable here: %s", name, p.version, o.refused(p)))
			if !slices.Contains(o.names(), name) {
				where = append(where,
					name+": enable it with writ runner --engines "+strings.Join(append(slices.Clone(o.names()), name), ","))
			}
		case !(writ.Engine{Version: p.version}).IsVersion(version):
			why = append(why, fmt.Sprintf("%s %s instead of %s", name, p.version, version))
		default:
			return p, nil
		}
	}
	err := writ.Errorf(writ.CodeDriverMissing, "no engine for the database: this node has %s", strings.Join(why, "; "))
	if len(where) > 0 {
		return program{}, err.WithHint("%s", strings.Join(where, "; "))
	}
	return program{}, err.WithHint("ask for another engine or version, or for another node")
}

// program finds an engine on this host. If the program is missing, it returns exec.ErrNotFound and a program with only
// the field engine set.
func (o *offer) program(ctx context.Context, name string) (program, error) {
	e, ok := engineOf(name)
	if !ok {
		return program{}, writ.Errorf(writ.CodeDriverMissing, "unknown engine %s", name)
	}
	look := o.look
	if look == nil {
		look = exec.LookPath
	}
	path, err := look(name)
	if err != nil {
		return program{engine: e}, exec.ErrNotFound
	}
	version, err := "", error(nil)
	if e.versionArgs != nil {
		version, err = o.versions.Of(ctx, path, append([]string{path}, e.versionArgs...)...)
	}
	if err != nil {
		return program{e, path, ""}, sal.HostError("find the version of "+path, err)
	}
	return program{e, path, cmp.Or(version, unknownVersion)}, nil
}

// all returns the names of all engines. The engines for new databases come first.
func (o *offer) all() []string {
	names := slices.Clone(o.names())
	for _, e := range engines {
		if !slices.Contains(names, e.name) {
			names = append(names, e.name)
		}
	}
	return names
}

// refused returns the reason why an engine of this host is not used for new databases, or "".
func (o *offer) refused(p program) string {
	switch {
	case slices.Contains(o.names(), p.name) && (p.least == "" || needs.AtLeast(p.version, p.least)):
		return ""
	case slices.Contains(o.names(), p.name):
		return "it is older than " + p.least
	case len(o.named) > 0:
		return "--engines does not name it"
	default:
		return p.weak
	}
}

// installed returns the engines of this host. The engines for new databases come first.
func (o *offer) installed(ctx context.Context) []writ.Engine {
	var serve, refused []writ.Engine
	for _, name := range o.all() {
		p, err := o.program(ctx, name)
		if errors.Is(err, exec.ErrNotFound) {
			continue
		}
		e := writ.Engine{Name: name, Version: p.version, Refused: o.refused(p)}
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

// about describes the engines of a node. serve lists the engines for new databases, with their weakness if any. refused
// lists the other engines, with the reason.
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

// checkEngine checks whether there is an engine for new databases. It describes all installed engines.
func (o *offer) checkEngine(ctx context.Context) (string, error) {
	if _, err := o.choose(ctx, nil, ""); err != nil {
		return "", errors.New(writ.AsError(err).Message)
	}
	serve, refused := about(o.installed(ctx))
	detail := strings.Join(serve, ", ")
	if len(refused) > 0 {
		detail += "; not used: " + strings.Join(refused, ", ")
	}
	return detail, nil
}

// checkNamed checks that this host can use every engine in Driver.Engines for new databases.
func (o *offer) checkNamed(ctx context.Context) (string, error) {
	if len(o.named) == 0 {
		return "none; all engines that protect their secret are used", nil
	}
	found := o.installed(ctx)
	var lacking []string
	for _, name := range o.named {
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
	return strings.Join(o.named, ", "), nil
}
