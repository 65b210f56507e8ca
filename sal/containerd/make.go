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

// undoLimit limits the cleanup after the context of an operation has ended.
const undoLimit = 30 * time.Second

// make makes or updates the container of the request. left is the record of an unfinished earlier attempt.
func (j *job) make(ctx context.Context, left, r *record) (sal.Outcome, error) {
	change, fields, err := r.Decide(j.Request)
	if err != nil {
		return sal.Outcome{}, err
	}
	switch {
	case change == writ.ChangeCreated:
		r, err = j.create(ctx, left)
	case change == writ.ChangeUpdated &&
		!slices.ContainsFunc(fields, func(argument string) bool { return replacesFor(j, r, argument) }):
		err = update(ctx, j, r, fields)
	case change == writ.ChangeUpdated:
		err = j.replace(ctx, r, false)
	case r.Own.FilesChanging:
		change, err = writ.ChangeUpdated, update(ctx, j, r, []string{"files"})
	default:
		change, err = j.ensureStarted(ctx, r)
	}
	if err == nil {
		err = ensureHealthy(ctx, j, r)
	}
	if err == nil {
		err = updateReadiness(ctx, j, r)
	}
	if err != nil {
		return sal.Outcome{}, err
	}
	return j.outcome(ctx, r, change)
}

// create makes and starts the first container of a resource. If it fails, it removes everything that it made.
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
	r.Own.Other = nextID(r)
	if err := j.recordMaking(ctx, r); err != nil {
		return nil, err
	}
	err = j.build(ctx, r, plan, false)
	if err == nil {
		err = j.activate(ctx, r)
	}
	if err != nil {
		undo, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoLimit)
		defer cancel()
		return nil, errors.Join(err, j.clear(undo, r))
	}
	return r, nil
}

// replace makes a new container beside the current container and switches to it. The old container is unchanged until
// the new container is complete. The new container is started unless `stopped` is set. If it has a health check and
// does not become healthy, the old container is started again.
func (j *job) replace(ctx context.Context, r *record, stopped bool) error {
	plan, err := j.plan(ctx)
	if err != nil {
		return err
	}
	if err := dropOther(ctx, j, r); err != nil { // left by the last replacement
		return err
	}
	if r.Own.Replaced, err = replacedBy(ctx, j, r, plan.args, stopped); err != nil {
		return err
	}
	r.Own.Other, r.Own.Beside, r.Own.Ended = nextID(r), catalog.Values(j.Args), ""
	if err := j.put(r, replacing); err != nil {
		return err
	}
	before := r.Own.attachment
	if err := j.build(ctx, r, plan, stopped); err != nil {
		r.Own.attachment = before
		undo, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoLimit)
		defer cancel()
		return errors.Join(err, j.dropReplacement(undo, r))
	}
	err = j.activate(ctx, r)
	if err != nil && r.Own.Phase == checking {
		undo, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoLimit)
		defer cancel()
		return errors.Join(err, restoreReplaced(undo, j, r))
	}
	return err
}

// ensureStarted finishes the start of a container whose spec is unchanged, and recreates it if the daemon has lost it.
func (j *job) ensureStarted(ctx context.Context, r *record) (writ.Change, error) {
	now, err := inspect(ctx, j.daemon, r.Own.Container)
	if err != nil {
		return "", err
	}
	if !now.known {
		return writ.ChangeUpdated, j.replace(ctx, r, false)
	}
	if r.Own.Phase == checking {
		return finishChecking(ctx, j, r)
	}
	if r.Own.Phase == starting || now.status == client.Created {
		return writ.ChangeUnchanged, j.activate(ctx, r)
	}
	return writ.ChangeUnchanged, nil
}

// nextID returns the daemon's ID for the next container of a resource.
func nextID(r *record) string { return fmt.Sprintf("%s-%d", r.Resource.HostName(), r.Generation+1) }

// build creates the container r.Own.Other without starting its program, and records it as the current container.
func (j *job) build(ctx context.Context, r *record, plan *plan, stopped bool) error {
	if err := j.unshared(ctx, plan.args); err != nil {
		return err
	}
	// Check the image again after the record is written: a concurrent deletion of the image marks it before it checks for
	// users.
	if _, err := imageOf(ctx, j, plan.args); err != nil {
		return err
	}
	if r.Own.handsOver() {
		r.Own.attachment = attachment{Side: 1 - r.Own.Side}
	}
	if err := j.connect(ctx, r, plan.args); err != nil {
		return err
	}
	if err := j.write(r); err != nil {
		return err
	}
	if err := j.register(ctx, r, plan); err != nil {
		return err
	}
	if err := writeFiles(j, r.Own.Other, plan); err != nil {
		return err
	}
	if err := j.prepare(ctx, r, r.Own.Other, plan.args); err != nil {
		return err
	}
	r.Own.Container, r.Own.Other = r.Own.Other, r.Own.Container
	r.Own.Stopped, r.Own.FilesChanging, r.Own.ImageCheck = stopped, false, plan.imageCheck
	r.Own.Beside = nil
	if r.Own.Other != "" {
		r.Own.Beside = r.Spec
	}
	r.Spec = catalog.Values(j.Args)
	r.Generation++
	return j.put(r, nextPhase(r, plan.args))
}

// nextPhase returns the phase of a complete container that must be started. Without a health check it is usually ready,
// which saves one write of the record: a created process shows that its start is missing. If a reboot removes this
// process, the restart policy starts the container.
func nextPhase(r *record, args *catalog.ContainerCreate) phase {
	if isRun(r) {
		return pending
	}
	if r.Own.Replaced != nil || r.Own.Other == "" && args.Health.Retries > 0 {
		return checking
	}
	if r.Own.Other == "" && r.Spec["restart"] != "never" {
		return ready
	}
	return starting
}

// connect makes the network namespace, or recreates it after a reboot.
func (j *job) connect(ctx context.Context, r *record, args *catalog.ContainerCreate) error {
	if len(args.Networks) == 0 && len(args.Publish) == 0 && r.Own.Namespace == "" {
		return nil // runc makes a namespace with a loopback interface for each run
	}
	if j.Networks == nil {
		return writ.Errorf(writ.CodeDriverMissing, "this node has no networks for containers").
			WithHint("omit networks and publish, or use another node")
	}
	j.Step.step("make the network namespace")
	path, ports, err := j.Networks.Namespace(ctx, ownerOf(r), args.Networks)
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
	if isBeside(r) {
		return nil
	}
	return publish(ctx, j, r, args.Publish)
}

// activate starts the current container, unless it is stopped, and removes the other container.
func (j *job) activate(ctx context.Context, r *record) error {
	if r.Own.Phase == checking {
		return activateChecked(ctx, j, r)
	}
	switch {
	case r.Own.Other == "" || r.Own.Stopped:
	case r.Own.handsOver():
		drain(ctx, j, otherOwner(r), drainLimit)
	default:
		if err := leave(ctx, j, r, drainLimit); err != nil {
			return err
		}
	}
	if err := dropOther(ctx, j, r); err != nil {
		return err
	}
	if !r.Own.Stopped {
		if err := j.run(ctx, r); err != nil {
			return err
		}
	}
	if r.Own.Phase != ready {
		r.Own.Other, r.Own.Beside, r.Own.Replaced = "", nil, nil
		if err := j.put(r, ready); err != nil {
			return err
		}
	}
	return updateReadiness(ctx, j, r)
}

// dropReplacement removes an unfinished replacement.
func (j *job) dropReplacement(ctx context.Context, r *record) error {
	if r.Own.Phase != replacing { // the replacement is the current container already
		return nil
	}
	if err := j.discard(ctx, r, r.Own.Other, 0); err != nil {
		return err
	}
	if err := restoreNetwork(ctx, j, r); err != nil {
		return err
	}
	if err := releaseOther(ctx, j, r); err != nil {
		return err
	}
	r.Own.Other, r.Own.Beside, r.Own.Replaced = "", nil, nil
	return j.put(r, ready)
}

// remove stops and deletes the container. No step requires a working container.
func (j *job) remove(ctx context.Context) (sal.Outcome, error) {
	none := sal.Outcome{
		Change: writ.ChangeUnchanged, Values: catalog.Values(catalog.Identify(j.Resource, j.UID, false)),
	}
	r, err := recordsIn(j.Dir).GetToRemove(j.Request)
	if err != nil || r == nil {
		return none, err
	}
	if isUnfinished(r) {
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

// clear removes everything of the container, its record last.
func (j *job) clear(ctx context.Context, r *record) error {
	if err := j.put(r, deleting); err != nil {
		return err
	}
	if err := leave(ctx, j, r, drainLimit); err != nil {
		return err
	}
	_ = j.endPrograms(ctx, r) // a program that does not end now ends with its container
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
		for _, owner := range ownersOf(r) {
			j.Step.step("release the network namespace")
			if err := j.Networks.Release(ctx, owner); err != nil {
				return err
			}
		}
	}
	j.Step.step("remove the files")
	if err := os.RemoveAll(placeOf(j.Dir, r.Resource)); err != nil {
		return sal.HostError("remove the files of "+r.Resource.String(), err)
	}
	j.restarts.forget(r.Resource.HostName())
	j.health.Forget(r.Resource)
	j.Step.step("remove the record")
	return recordsIn(j.Dir).Remove(r.Resource)
}

// atDaemon returns the IDs of all containers and layers of the resource at the daemon, for a resource whose record is
// damaged.
func (j *job) atDaemon(ctx context.Context) ([]string, error) {
	containers, layers, err := inventory(ctx, j.daemon)
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

// isOf reports whether an ID at the daemon belongs to a container of a resource.
func isOf(hostName, id string) bool { return strings.HasPrefix(id, hostName+"-") }
