package simulated

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"

	"writ"
	"writ/sal"
	"writ/sal/catalog"
)

var _ sal.Fencing = (*Driver)(nil)

func makeMachine(d *Driver, request sal.Request, s *state) (err error) {
	args := request.Args.(*catalog.MachineCreate)
	*s = state{Power: running, CPUs: args.CPUs, MemoryMiB: args.MemoryMiB}
	for i, disk := range args.Disks {
		s.Volumes = append(s.Volumes, attached{Volume: disk, Boot: i == 0})
	}
	if err := using.claim(node(d.config.Dir), request.Resource, args.Disks); err != nil {
		return err
	}
	s.IPv4, err = choosing.choose(node(d.config.Dir), request.Resource, args.Networks)
	return err
}

func updateMachine(request sal.Request, fields []string, s *state) error {
	to := *s
	args := request.Args.(*catalog.MachineCreate)
	if err := updateSizes(request, fields, &to, args.CPUs, args.MemoryMiB, 0); err != nil {
		return err
	}
	return resize(request, s, to.CPUs, to.MemoryMiB)
}

// resize sets the CPUs and memory of a machine. It returns RESOURCE_CONFLICT for a change of a paused machine, whose
// guest cannot add or release them.
func resize(request sal.Request, s *state, cpus, memory int64) error {
	if s.Power == paused && (cpus != s.CPUs || memory != s.MemoryMiB) {
		return refuse(request, s, "resume it with machine.resume, then change its size")
	}
	s.CPUs, s.MemoryMiB = cpus, memory
	return nil
}

func useMachine(d *Driver, request sal.Request, s *state) (map[string]any, error) {
	switch request.Operation.Verb {
	case "start", "stop", "pause", "resume":
		return nil, switchPower(request, s)
	case "resize":
		args := request.Args.(*catalog.MachineResize)
		return nil, resize(request, s, cmp.Or(args.CPUs, s.CPUs), cmp.Or(args.MemoryMiB, s.MemoryMiB))
	case "snapshot":
		saveState(s, request.Args.(*catalog.Snapshot).Snapshot)
		return nil, nil
	case "delete_snapshot":
		deleteState(s, request.Args.(*catalog.Snapshot).Snapshot)
		return nil, nil
	case "restore":
		return nil, restoreState(request, s, "snapshot", request.Args.(*catalog.Snapshot).Snapshot)
	case "attach":
		return nil, attach(d, request, s)
	case "detach":
		return nil, detach(request, s)
	case "console":
		return d.logs.read(request)
	default:
		return nil, unsupported(request)
	}
}

// switchPower switches between running, paused and stopped.
func switchPower(request sal.Request, s *state) error {
	verb := request.Operation.Verb
	switch {
	case verb == "stop":
		s.Power = stopped
	case verb == "start" && s.Power == paused:
		return refuse(request, s, "resume it with machine.resume")
	case verb == "start":
		s.Power = running
	case s.Power == stopped:
		return refuse(request, s, "start it with machine.start")
	case verb == "pause":
		s.Power = paused
	case verb == "resume":
		s.Power = running
	}
	return nil
}

// endingOf returns how a simulated guest or process ended: always by itself. It returns "" if the power state is not
// stopped.
func endingOf(power string) string {
	if power == stopped {
		return catalog.EndedByItself
	}
	return ""
}

func attach(d *Driver, request sal.Request, s *state) error {
	args := request.Args.(*catalog.MachineAttach)
	for _, a := range s.Volumes {
		if a.Volume.Name != args.Volume.Name {
			continue
		}
		if a.Volume.UID != args.Volume.UID || a.ReadOnly != args.ReadOnly {
			return writ.Errorf(writ.CodeResourceConflict, "%s already has the volume %q with another read_only",
				request.Resource, a.Volume.Name).
				WithHint("detach it with machine.detach first")
		}
		return nil
	}
	s.Volumes = append(s.Volumes, attached{Volume: args.Volume, ReadOnly: args.ReadOnly})
	return using.claim(node(d.config.Dir), request.Resource, []writ.Ref{args.Volume})
}

func detach(request sal.Request, s *state) error {
	volume := request.Args.(*catalog.MachineDetach).Volume
	i := slices.IndexFunc(s.Volumes, func(a attached) bool { return a.Volume.Name == volume.Name })
	switch {
	case i < 0:
		return nil
	case s.Volumes[i].Boot:
		return writ.Errorf(writ.CodeResourceConflict, "%s boots from the volume %q", request.Resource, volume.Name).
			WithHint("delete the machine first; the volume stays")
	case s.Volumes[i].Volume.UID != volume.UID:
		return writ.Errorf(writ.CodeResourceConflict, "%s has a different volume named %q", request.Resource, volume.Name)
	}
	s.Volumes = slices.Delete(s.Volumes, i, i+1)
	return nil
}

func showMachine(_ *Driver, r *sal.Record[own]) any {
	s, spec := r.Own.State, argsOf[catalog.MachineCreate](r)
	m := catalog.Machine{
		Identity:  identity(r),
		State:     s.Power,
		CPUs:      s.CPUs,
		MemoryMiB: s.MemoryMiB,
		Addresses: addressesOn(spec.Networks, r.Resource),
		Snapshots: slices.Sorted(maps.Keys(s.Kept)),
		DiskGiB:   int64(len(s.Kept)), // each counts as 1 GiB
		IPv4:      catalog.IPv4Of(s.IPv4),
		Ended:     endingOf(s.Power),
	}
	m.Address = first(m.Addresses)
	if m.Address != "" {
		m.MAC = macOf(r.Resource)
	}
	for _, a := range s.Volumes {
		m.Disks = append(m.Disks, a.Volume.Name)
	}
	return m
}

func makeContainer(d *Driver, request sal.Request, s *state) (err error) {
	args := request.Args.(*catalog.ContainerCreate)
	s.Power = running
	if args.Health.Retries > 0 {
		request.Progress("the health check is not carried out: a simulated container is healthy at once")
	}
	for path, f := range args.Files {
		if _, err := f.Content(path); err != nil {
			return err
		}
	}
	if err := using.claim(node(d.config.Dir), request.Resource, mounted(args.Volumes)); err != nil {
		return err
	}
	s.IPv4, err = choosing.choose(node(d.config.Dir), request.Resource, args.Networks)
	return err
}

// checkDevices rejects devices that the node does not offer.
func checkDevices(d *Driver, names []string) error {
	for _, name := range names {
		if offers := d.config.Devices; len(offers) > 0 && !slices.Contains(offers, name) {
			return writ.Errorf(writ.CodeDeviceForbidden, "this node does not offer the device %s", name).
				WithHint("it offers %s", strings.Join(offers, ", "))
		}
	}
	return nil
}

// updateContainer applies changed fields. If the change needs a new container, the new container runs.
func updateContainer(request sal.Request, fields []string, s *state) error {
	args := request.Args.(*catalog.ContainerCreate)
	for path, f := range args.Files {
		if _, err := f.Content(path); err != nil {
			return err
		}
	}
	if slices.ContainsFunc(fields, catalog.ReplacesContainer) || slices.Contains(fields, replacingFiles) {
		s.Power = running
	}
	return nil
}

// replacingFiles is a pseudo field among the changed fields. It means that the change of the files replaces the
// container.
const replacingFiles = "files, with a new container"

// filesReplace returns the changed fields, with replacingFiles if the change of a container's files replaces the
// container.
func filesReplace(r *sal.Record[own], request sal.Request, fields []string) []string {
	args, ok := request.Args.(*catalog.ContainerCreate)
	if !ok || !slices.Contains(fields, "files") {
		return fields
	}
	if catalog.FilesReplace(argsOf[catalog.ContainerCreate](r).Files, args.Files) {
		fields = append(slices.Clone(fields), replacingFiles)
	}
	return fields
}

func useContainer(d *Driver, request sal.Request, s *state) (map[string]any, error) {
	switch request.Operation.Verb {
	case "start":
		s.Power = running
	case "stop":
		s.Power = stopped
	case "exec":
		return execute(request, s)
	case "logs":
		return d.logs.read(request)
	default:
		return nil, unsupported(request)
	}
	return nil, nil
}

// execute echoes the command as output. Some commands work as usual: "false" exits with 1, "cat" returns its input,
// "sha256sum" the digest of its input, and "printenv NAME" a variable.
func execute(request sal.Request, s *state) (map[string]any, error) {
	if s.Power != running {
		return nil, refuse(request, s, "start it with container.start")
	}
	args := request.Args.(*catalog.ContainerExec)
	input, err := args.Stdin.Reveal()
	if err != nil {
		return nil, err
	}
	exit, output := int64(0), simulatedLine(strings.Join(args.Command, " "))+"\n"
	switch args.Command[0] {
	case "false":
		exit = 1
	case "cat":
		output = input
	case "sha256sum":
		output = writ.DigestOf([]byte(input)).String() + "  -\n"
	case "printenv":
		if output, err = args.Env[args.Command[len(args.Command)-1]].Reveal(); err != nil {
			return nil, err
		}
		output += "\n"
	}
	return map[string]any{"exit_code": exit, "stdout": output, "stderr": ""}, nil
}

func showContainer(d *Driver, r *sal.Record[own]) any {
	c := catalog.Container{
		Identity:  identity(r),
		State:     r.Own.State.Power,
		Ended:     endingOf(r.Own.State.Power),
		Addresses: addressesOn(argsOf[catalog.ContainerCreate](r).Networks, r.Resource),
		IPv4:      catalog.IPv4Of(r.Own.State.IPv4),
		Published: claimsOf(d).Published(r.Own.State.Claims),

		LastExitCode: catalog.NeverEnded,
	}
	if spec := argsOf[catalog.ContainerCreate](r); spec.Health.Retries > 0 && c.State == running {
		c.Health = catalog.HealthHealthy
	}
	c.Address = first(c.Addresses)
	return c
}

// Fence implements sal.Fencing. A fence is not an effect of a job, so it is not counted.
func (d *Driver) Fence(ctx context.Context, resource writ.ResourceID) error {
	r, err := d.store.get(resource)
	if err != nil || r == nil || r.Own.State.Power == "" || r.Own.State.Power == stopped {
		return err
	}
	r.Own.State.Power = stopped
	if err := d.store.records.Put(r); err != nil {
		return err
	}
	return ctx.Err()
}
