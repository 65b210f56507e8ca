package simulated

import (
	"maps"
	"net"
	"slices"
	"strconv"

	"writ"
	"writ/sal"
	"writ/sal/catalog"
)

func makeNetwork(*Driver, sal.Request, *state) error { return nil }

func useNetwork(d *Driver, request sal.Request, s *state) (map[string]any, error) {
	args, ok := request.Args.(*catalog.NetworkAllow)
	if !ok {
		return nil, unsupported(request)
	}
	network, err := d.store.get(request.Resource)
	if err != nil {
		return nil, err
	}
	_, hasIPv4 := network.Spec["ipv4"]
	if err := catalog.CheckRules(request.Resource, args.Rules, hasIPv4); err != nil {
		return nil, err
	}
	rules := catalog.Values(request.Args)
	if mutable, immutable := request.Operation.Args.Changed(s.Rules, rules); len(mutable)+len(immutable) > 0 {
		s.Rules = rules
	}
	return nil, nil
}

func showNetwork(_ *Driver, r *sal.Record[own]) any {
	rules, _ := r.Own.State.Rules["rules"].([]any)
	return catalog.Network{
		Identity: identity(r),
		Subnet:   subnetOf(r.Resource).String(),
		Gateway:  gatewayOf(r.Resource).String(),
		Bridge:   r.Resource.HostName(),
		MTU:      mtu,
		Rules:    int64(len(rules)),
	}
}

func makeHeroDB(_ *Driver, request sal.Request, s *state) error {
	args := request.Args.(*catalog.HeroDBCreate)
	*s = state{
		Power: running, MemoryMiB: args.MemoryMiB, SizeGiB: args.SizeGiB, Secret: 1, Given: hasPassword(args.Password),
	}
	return nil
}

func updateHeroDB(request sal.Request, fields []string, s *state) error {
	args := request.Args.(*catalog.HeroDBCreate)
	if slices.Contains(fields, "password") {
		s.Secret++
		s.Given = hasPassword(args.Password)
	}
	return updateSizes(request, fields, s, 0, args.MemoryMiB, args.SizeGiB)
}

// hasPassword reports whether a password was given; otherwise the driver generates one.
func hasPassword(password catalog.Text) bool {
	return password.HasSecret()
}

func useHeroDB(_ *Driver, request sal.Request, s *state) (map[string]any, error) {
	switch request.Operation.Verb {
	case "backup":
		saveState(s, request.Args.(*catalog.Backup).Backup)
		return nil, nil
	case "delete_backup":
		deleteState(s, request.Args.(*catalog.Backup).Backup)
		return nil, nil
	case "restore":
		now := *s
		err := restoreState(request, s, "backup", request.Args.(*catalog.Backup).Backup)
		s.SizeGiB, s.MemoryMiB, s.Secret = now.SizeGiB, now.MemoryMiB, now.Secret // a backup contains only data
		return nil, err
	case "rotate_secret":
		if s.Given {
			return nil, writ.Errorf(writ.CodeResourceConflict, "the password of %s was set by herodb.create",
				request.Resource).
				WithHint("set a new version of the secret and create the database with it")
		}
		s.Secret++
		return nil, nil
	default:
		return nil, unsupported(request)
	}
}

// herodbPort is the port of Redis. Each database has its own address.
const herodbPort = 6379

func showHeroDB(_ *Driver, r *sal.Record[own]) any {
	s, spec := r.Own.State, argsOf[catalog.HeroDBCreate](r)
	network := writ.ResourceID{Project: r.Resource.Project, Kind: writ.KindNetwork, Name: spec.Network.Name}
	host := addressOn(network, r.Resource).String()
	h := catalog.HeroDB{
		Identity:      identity(r),
		State:         s.Power,
		Address:       net.JoinHostPort(host, strconv.Itoa(herodbPort)),
		Host:          host,
		Port:          herodbPort,
		Engine:        first(spec.Engines),
		Version:       spec.Version,
		SecretVersion: s.Secret,
		Backups:       slices.Sorted(maps.Keys(s.Kept)),
	}
	if h.Engine == "" {
		h.Engine = "herodb"
	}
	if h.Version == "" {
		h.Version = "simulated"
	}
	return h
}
