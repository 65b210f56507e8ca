package containerd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/containerd/containerd/v2/client"

	"writ"
	"writ/sal"
	"writ/sal/catalog"
)

// undoLimit bounds what is done after the context of an operation has ended.
const undoLimit = 30 * time.Second

// make makes the container as the request says; left is the record of an attempt that was never finished.
func (j *job) make(ctx context.Context, left, r *record) (sal.Outcome, error) {
	change, fields, err := r.Decide(j.Request)
	if err != nil {
		return sal.Outcome{}, err
	}
	switch {
	case change == writ.ChangeCreated:
		r, err = j.create(ctx, left)
	case change == writ.ChangeUpdated && !slices.ContainsFunc(fields, replaces):
		err = j.remember(r)
	case change == writ.ChangeUpdated:
		err = j.replace(ctx, r, false)
	default:
		change, err = j.keepAsAsked(ctx, r)
	}
	if err != nil {
		return sal.Outcome{}, err
	}
	return j.outcome(ctx, r, change)
}

// create makes and starts the first container of a resource, or nothing at all.
func (j *job) create(ctx context.Context, left *record) (*record, error) {
	plan, err := j.plan(ctx)
	if err != nil {
		return nil, err
	}
	if left != nil {
		if err := j.clear(ctx, left); err != nil {
			return nil, err
		}
	}
	r := sal.NewRecord[own](j.Request)
	r.Own.Other = j.id(r)
	if err := j.note(ctx, r); err != nil {
		return nil, err
	}
	err = j.build(ctx, r, plan, false)
	if err == nil {
		err = j.bring(ctx, r)
	}
	if err != nil {
		undo, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoLimit)
		defer cancel()
		return nil, errors.Join(err, j.clear(undo, r))
	}
	return r, nil
}

// replace makes another container beside the one that there is, and lets it take its place. Until the new one is whole, nothing happens
// to the old one. The new one runs then unless it is to be stopped.
func (j *job) replace(ctx context.Context, r *record, stopped bool) error {
	plan, err := j.plan(ctx)
	if err != nil {
		return err
	}
	if r.Own.Other != "" { // what the last replacement left
		if err := j.discard(ctx, r, r.Own.Other, j.graceOf(r)); err != nil {
			return err
		}
	}
	r.Own.Other, r.Own.Beside, r.Own.Ended = j.id(r), catalog.Values(j.Args), ""
	if err := j.put(r, replacing); err != nil {
		return err
	}
	if err := j.build(ctx, r, plan, stopped); err != nil {
		undo, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoLimit)
		defer cancel()
		return errors.Join(err, j.dropReplacement(undo, r))
	}
	return j.bring(ctx, r)
}

// replaces reports whether a container is replaced when a field of its arguments changes.
func replaces(field string) bool { return field != "restart" && field != "grace_seconds" }

// remember notes a change of the spec that nothing on the host depends on.
func (j *job) remember(r *record) error {
	r.Spec = catalog.Values(j.Args)
	r.Generation++
	return j.put(r, r.Own.Phase)
}

// keepAsAsked finishes the start of a container that is as it was asked for, and makes it anew if the daemon has lost it.
func (j *job) keepAsAsked(ctx context.Context, r *record) (writ.Change, error) {
	now, err := look(ctx, j.daemon, r.Own.Container)
	if err != nil {
		return "", err
	}
	if !now.known {
		return writ.ChangeUpdated, j.replace(ctx, r, false)
	}
	if r.Own.Phase == starting || now.status == client.Created {
		return writ.ChangeUnchanged, j.bring(ctx, r)
	}
	return writ.ChangeUnchanged, nil
}

// id is that of the next container of a resource at the daemon.
func (j *job) id(r *record) string {
	return fmt.Sprintf("%s-%d", j.Resource.HostName(), r.Generation+1)
}

// build makes r.Own.Other as a whole, up to the moment before its program begins, and lets it be the one that counts.
func (j *job) build(ctx context.Context, r *record, plan *plan, stopped bool) error {
	if err := j.unshared(ctx, plan.args); err != nil {
		return err
	}
	if _, err := j.Images.Image(ctx, j.Resource.Project, plan.args.Image); err != nil { // whoever deletes it meanwhile asks us after saying so
		return err
	}
	if err := j.connect(ctx, r, plan.networks); err != nil {
		return err
	}
	if err := j.write(r); err != nil {
		return err
	}
	if err := j.register(ctx, r, plan); err != nil {
		return err
	}
	if err := j.prepare(ctx, r, r.Own.Other, plan.args.Volumes); err != nil {
		return err
	}
	r.Own.Container, r.Own.Other = r.Own.Other, r.Own.Container
	r.Own.Stopped = stopped
	r.Own.Beside = nil
	if r.Own.Other != "" {
		r.Own.Beside = r.Spec
	}
	r.Spec = catalog.Values(j.Args)
	r.Generation++
	return j.put(r, nextPhase(r))
}

// nextPhase is the phase of a container that is whole, and has yet to be started. In most cases it is as good as ready, which saves writing
// the record once more: a process that was made and not started tells that, and if a reboot takes it the policy has another one made.
func nextPhase(r *record) phase {
	if r.Own.Other == "" && r.Spec["restart"] != "never" {
		return ready
	}
	return starting
}

// connect makes the network namespace, as it is or anew after a reboot.
func (j *job) connect(ctx context.Context, r *record, networks []writ.Ref) error {
	if len(networks) == 0 {
		return nil // runc makes one with a loopback interface, for as long as the container runs
	}
	if j.Networks == nil {
		return writ.Errorf(writ.CodeDriverMissing, "this node has no networks for containers").WithHint("leave networks away, or use another node")
	}
	j.step("make the network namespace")
	path, ports, err := j.Networks.Namespace(ctx, sal.Owner{Resource: r.Resource, UID: r.UID, IDs: r.Own.IDs}, networks)
	if err != nil {
		return err
	}
	r.Own.Namespace, r.Own.Addresses, r.Own.Nameservers = path, nil, nil
	r.Own.IPv4 = sal.IPv4Of(ports)
	for _, p := range ports {
		r.Own.Addresses = append(r.Own.Addresses, p.IPv6.Addr().String())
		for _, server := range p.Nameservers {
			if !slices.Contains(r.Own.Nameservers, server) {
				r.Own.Nameservers = append(r.Own.Nameservers, server)
			}
		}
	}
	return nil
}

// bring lets the container that counts run, unless it is to be stopped, and the other one go.
func (j *job) bring(ctx context.Context, r *record) error {
	if r.Own.Other != "" {
		if err := j.discard(ctx, r, r.Own.Other, j.graceOf(r)); err != nil {
			return err
		}
	}
	if !r.Own.Stopped {
		if err := j.run(ctx, r); err != nil {
			return err
		}
	}
	if r.Own.Phase == ready {
		return nil
	}
	r.Own.Other, r.Own.Beside = "", nil
	return j.put(r, ready)
}

// dropReplacement removes a container that was to replace the one that there is.
func (j *job) dropReplacement(ctx context.Context, r *record) error {
	if r.Own.Phase != replacing { // it counts already
		return nil
	}
	if err := j.discard(ctx, r, r.Own.Other, 0); err != nil {
		return err
	}
	r.Own.Other, r.Own.Beside = "", nil
	return j.put(r, ready)
}

// remove stops and deletes the container. It asks for nothing that a broken container could refuse.
func (j *job) remove(ctx context.Context) (sal.Outcome, error) {
	none := sal.Outcome{Change: writ.ChangeUnchanged, Values: catalog.Values(catalog.Identify(j.Resource, j.UID, false))}
	r, err := j.records().GetToRemove(j.Request)
	if err != nil || r == nil {
		return none, err
	}
	if r.Own.Phase == making { // it was never there
		return none, j.clear(ctx, r)
	}
	if err := r.Owned(j.Request); err != nil {
		return sal.Outcome{}, err
	}
	if r.Own.Phase != deleting {
		r.Own.Ended = ""
	}
	err = j.clear(ctx, r)
	deleted := catalog.ContainerDeleted{Identity: catalog.Identify(j.Resource, j.UID, false), Ended: r.Own.Ended}
	return sal.Outcome{Change: writ.ChangeDeleted, Values: catalog.Values(deleted)}, err
}

// clear removes whatever there is of the container, its record last.
func (j *job) clear(ctx context.Context, r *record) error {
	if err := j.put(r, deleting); err != nil {
		return err
	}
	_ = j.endPrograms(ctx, r) // if one does not end so, it does with its container
	ids := []string{r.Own.Other, r.Own.Container}
	if r.Lost {
		var err error
		if ids, err = j.atDaemon(ctx); err != nil {
			return err
		}
	}
	for _, id := range ids {
		if id == "" {
			continue
		}
		if err := j.discard(ctx, r, id, j.graceOf(r)); err != nil {
			return err
		}
	}
	if j.Networks != nil {
		j.step("release the network namespace")
		if err := j.Networks.Release(ctx, sal.Owner{Resource: r.Resource, UID: r.UID}); err != nil {
			return err
		}
	}
	j.step("remove the files")
	if err := os.RemoveAll(j.place(r.Resource)); err != nil {
		return sal.HostError("remove the files of "+r.Resource.String(), err)
	}
	j.forget(r.Resource)
	j.step("remove the record")
	return j.records().Remove(r.Resource)
}

// atDaemon are the ids of all containers and layers that the daemon has for the resource, for when the record does not say any more.
func (j *job) atDaemon(ctx context.Context) ([]string, error) {
	containers, layers, err := stock(ctx, j.daemon)
	if err != nil {
		return nil, err
	}
	var all []string
	for id := range layers {
		all = append(all, id)
	}
	for _, c := range containers {
		all = append(all, c.ID)
	}
	slices.Sort(all)
	all = slices.Compact(all)
	return slices.DeleteFunc(all, func(id string) bool { return !isOf(j.Resource.HostName(), id) }), nil
}

// isOf reports whether an id at the daemon is that of a container of a resource.
func isOf(hostName, id string) bool { return strings.HasPrefix(id, hostName+"-") }
