package herodb

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"syscall"

	"writ"
	"writ/sal"
	"writ/sal/catalog"
)

func (j *job) make(ctx context.Context, r *sal.Record[own]) (sal.Outcome, error) {
	r, change, err := r.Make(j.Request, sal.Making[own]{
		Create: func() (*sal.Record[own], error) { return j.create(ctx) },
		Update: func(fields []string) error { return j.update(ctx, r, fields) },
		Check: func() error {
			_, err := j.serve(ctx, r)
			return err
		},
	})
	if err != nil {
		return sal.Outcome{}, err
	}
	return j.outcome(ctx, r, change)
}

// maxAttempts limits the attempts to create a database. create retries if another process took the port between check
// and start.
const maxAttempts = 3

// create makes the database. If it fails, it removes everything that it created.
func (j *job) create(ctx context.Context) (*sal.Record[own], error) {
	for attempt := 1; ; attempt++ {
		r, err := j.attempt(ctx)
		if err == nil || r == nil || r.Own.Device != "" || attempt == maxAttempts || ctx.Err() != nil {
			return r, err
		}
		if !errors.Is(listens(r.Own.Host, r.Own.Port), syscall.EADDRINUSE) {
			return nil, err
		}
	}
}

// attempt is one try of create. If it fails after writing a record, it returns that record with the error.
func (j *job) attempt(ctx context.Context) (*sal.Record[own], error) {
	args := j.Args.(*catalog.HeroDBCreate)
	left, err := j.records().Get(j.Resource)
	if err != nil {
		return nil, err
	}
	if left != nil { // left by an earlier attempt
		if err := j.clear(left); err != nil {
			return nil, err
		}
	}
	p, err := j.offer().choose(ctx, args.Engines, args.Version)
	if err != nil {
		return nil, err
	}
	if err := j.checkRequest(p.engine, args); err != nil {
		return nil, err
	}
	r := sal.NewRecord[own](j.Request)
	r.Own = own{
		Phase: making, Engine: p.name, Version: p.version, Persist: args.Persist, SizeGiB: args.SizeGiB,
		MemoryMiB: args.MemoryMiB,
		Secret:    1, Given: hasPassword(args.Password),
	}
	if r.Own.User, err = j.user(0); err != nil {
		return nil, err
	}
	if err := j.place(ctx, r, p.engine); err != nil {
		j.users.Forget(j.Resource.HostName())
		return nil, err
	}
	if err := j.build(ctx, r, args); err != nil {
		return r, errors.Join(err, j.clear(r))
	}
	return r, nil
}

// checkRequest rejects a request that the engine does not support.
func (j *job) checkRequest(e engine, args *catalog.HeroDBCreate) error {
	if e.weak != "" && hasPassword(args.Password) {
		return writ.Errorf(writ.CodeArgumentsInvalid, "%s must not get the password of a script: %s", e.name, e.weak).
			WithHint("omit the password, so that one is generated, or ask for redis-server or valkey-server")
	}
	if args.Network.Name != "" && j.Networks == nil {
		return writ.Errorf(writ.CodeDriverMissing, "this node has no driver for networks, but %s needs a network",
			j.Resource)
	}
	return nil
}

// place chooses the address of the database and writes the record, which reserves it.
func (j *job) place(ctx context.Context, r *sal.Record[own], e engine) error {
	args := j.Args.(*catalog.HeroDBCreate)
	if args.Network.Name != "" {
		if err := j.records().Put(r); err != nil { // first, because after a crash the namespace is found by the record
			return err
		}
		if err := j.connect(ctx, r, e); err != nil {
			return errors.Join(err, j.clear(r))
		}
		return nil
	}
	host := netip.AddrFrom4([4]byte{127, 0, 0, 1})
	if j.Overlay != nil && !e.ipv4 {
		var err error
		if host, err = j.Overlay.Address(ctx); err != nil {
			return fmt.Errorf("find the node's address: %w", err)
		}
	}
	r.Own.Host = host.String()
	j.placing.Lock()
	defer j.placing.Unlock()
	records, _, err := j.records().List() // damaged records are ignored, because a running process occupies its port
	if err != nil {
		return err
	}
	if r.Own.Port, err = (portRange{j.FirstPort, j.LastPort}).choose(r, records); err != nil {
		return err
	}
	return j.records().Put(r)
}

// connect makes the network namespace of the database and stores the address, port and interface in r.
func (j *job) connect(ctx context.Context, r *sal.Record[own], e engine) error {
	_, port, err := j.namespace(ctx, r)
	if err != nil {
		return err
	}
	address := port.IPv6.Addr()
	if e.ipv4 {
		address = port.IPv4.Addr()
	}
	if !address.IsValid() {
		return writ.Errorf(writ.CodeArgumentsInvalid, "%s listens on IPv4 only, and %s has no IPv4", e.name,
			port.Network).
			WithHint("ask for redis-server or valkey-server, or make the network with ipv4")
	}
	r.Own.Host, r.Own.Port, r.Own.Device = address.String(), networkPort, port.Device
	return nil
}

// namespace makes or completes the network namespace of the database.
func (j *job) namespace(ctx context.Context, r *sal.Record[own]) (path string, port sal.Port, err error) {
	if j.Networks == nil {
		return "", sal.Port{}, writ.Errorf(writ.CodeDriverMissing,
			"this node has no driver for networks any more, but %s is on a network", r.Resource)
	}
	network, err := networkOf(r)
	if err != nil {
		return "", sal.Port{}, err
	}
	j.step("make the namespace")
	path, ports, err := j.Networks.Namespace(ctx, owner(r), []writ.Ref{network})
	if err != nil {
		return "", sal.Port{}, err
	}
	if len(ports) != 1 {
		return "", sal.Port{}, fmt.Errorf("make the namespace of %s: it has %d interfaces", r.Resource, len(ports))
	}
	return path, ports[0], nil
}

// networkOf reads the network from a record.
func networkOf(r *sal.Record[own]) (writ.Ref, error) {
	m, _ := r.Spec["network"].(map[string]any)
	kind, _ := m["kind"].(string)
	name, _ := m["name"].(string)
	uid, _ := m["uid"].(string)
	if name == "" {
		return writ.Ref{}, fmt.Errorf("the record of %s names no network: %v", r.Resource, r.Spec["network"])
	}
	return writ.Ref{Kind: writ.ResourceKind(kind), Name: name, UID: writ.UID(uid)}, nil
}

// build makes all parts of a database that has a record.
func (j *job) build(ctx context.Context, r *sal.Record[own], args *catalog.HeroDBCreate) error {
	a, err := newAccess(1, args.Password, access{})
	if err != nil {
		return err
	}
	if err := j.prepareAccess(a); err != nil {
		return err
	}
	j.step("make the tree")
	if r.Own.Tree, err = j.Trees.Make(ctx, j.tree(), j.room(r.Own.SizeGiB)); err != nil {
		return fmt.Errorf("reserve space for the data: %w", err)
	}
	return j.apply(ctx, r)
}

// apply makes the database match its record and sets phase ready.
func (j *job) apply(ctx context.Context, r *sal.Record[own]) error {
	how := adopt
	switch r.Own.Phase {
	case changing:
		how = reload
	case making, replacing:
		how = renew
	}
	if _, err := j.ensureProcess(ctx, r, how); err != nil {
		return err
	}
	r.Own.Phase = ready
	r.Generation++
	return j.records().Put(r)
}

// update applies a changed spec. All steps that can reject the change come before the write of the record. After the
// write, recovery completes the change.
func (j *job) update(ctx context.Context, r *sal.Record[own], fields []string) error {
	args := j.Args.(*catalog.HeroDBCreate)
	before, err := j.serve(ctx, r)
	if err != nil {
		return err
	}
	next := r.Own // read after serve, which may have started a process
	next.Phase = changing
	for _, field := range fields {
		switch field {
		case "size_gib":
			err = j.grow(ctx, &next, args.SizeGiB)
		case "memory_mib":
			next.MemoryMiB = args.MemoryMiB
			err = j.holds(ctx, before, next)
		case "password":
			next.Secret++
			next.Given = hasPassword(args.Password)
			err = j.changeSecret(before, next, args.Password)
		case "version":
			err = j.upgrade(ctx, &next, args.Version)
		}
		if err != nil {
			return err
		}
	}
	r.Own = next
	r.Spec = catalog.Values(j.Args)
	if err := j.records().Put(r); err != nil {
		return err
	}
	return j.apply(ctx, r)
}

func (j *job) grow(ctx context.Context, o *own, size int64) error {
	if size < o.SizeGiB {
		return writ.Errorf(writ.CodeImmutableField, "%s has %d GiB and cannot shrink to %d", j.Resource, o.SizeGiB,
			size).
			WithHint("create a smaller database under another name, and copy the data")
	}
	j.step("let the tree grow")
	if _, err := j.Trees.Make(ctx, j.tree(), j.room(size)); err != nil {
		return fmt.Errorf("reserve space for the data: %w", err)
	}
	o.SizeGiB = size
	return nil
}

// holds rejects a memory limit that is too small for the existing data.
func (j *job) holds(ctx context.Context, in instance, next own) error {
	if in.engine.live.reload == nil {
		return nil
	}
	c, err := in.dial(ctx)
	if err != nil {
		return sal.HostError("read the memory use of "+j.Resource.String(), err)
	}
	defer c.close()
	state, err := c.info(ctx, "memory")
	if err != nil {
		return sal.HostError("read the memory use of "+j.Resource.String(), err)
	}
	if used, _ := strconv.ParseInt(state["used_memory"], 10, 64); used > maxMemory(next.MemoryMiB) {
		return writ.Errorf(writ.CodeQuotaExceeded,
			"%s holds %d MiB of data; with a memory limit of %d MiB, only %d MiB are for data",
			j.Resource, used>>20, next.MemoryMiB, maxMemory(next.MemoryMiB)>>20).
			WithHint("give it more memory, or delete data first")
	}
	return nil
}

// upgrade selects the host's version of the same engine, unless the current version matches the request already. It
// returns DRIVER_MISSING if the host's version does not match.
func (j *job) upgrade(ctx context.Context, o *own, version string) error {
	if (writ.Engine{Version: o.Version}).IsVersion(version) {
		return nil
	}
	p, err := j.offer().choose(ctx, []string{o.Engine}, version)
	if err != nil {
		return err
	}
	o.Version = p.version
	o.Phase = replacing
	return nil
}

// changeSecret writes the next secret beside the current one. The next secret becomes valid when the record has its
// version.
func (j *job) changeSecret(in instance, next own, password catalog.Text) error {
	if in.engine.live.reload == nil {
		return writ.Errorf(writ.CodeDriverMissing, "%s cannot change its secret", in.engine.name).
			WithHint("make another database, with redis-server or valkey-server, and copy its data")
	}
	a, err := newAccess(next.Secret, password, in.access)
	if err != nil {
		return err
	}
	return j.prepareAccess(a)
}
