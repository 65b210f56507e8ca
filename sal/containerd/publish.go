package containerd

import (
	"context"
	"slices"

	"writ"
	"writ/sal"
	"writ/sal/catalog"
)

// publish publishes exactly these ports of the container.
func publish(ctx context.Context, j *job, r *record, ports []catalog.Publish) error {
	publishing, ok := j.Networks.(sal.Publishing)
	if !ok && len(ports) == 0 {
		return nil
	}
	if !ok {
		return writ.Errorf(writ.CodeDriverMissing, "this node cannot publish ports of containers").
			WithHint("omit publish, or use another node")
	}
	j.Step.step("publish the ports")
	published, err := publishing.Publisher().Publish(ctx, ownerOf(r), ports)
	if err == nil {
		r.Own.Published = published
	}
	return err
}

// replacesFor reports whether a change of an argument needs a new container. Published ports need a network namespace,
// which a container without networks lacks until it publishes its first port.
func replacesFor(j *job, r *record, argument string) bool {
	switch argument {
	case "publish":
		return r.Own.Namespace == ""
	case "files":
		return replacesForFiles(j, r)
	}
	return catalog.ReplacesContainer(argument)
}

// update applies changes that need no new container.
func update(ctx context.Context, j *job, r *record, fields []string) error {
	args, ok := j.Args.(*catalog.ContainerCreate)
	if ok {
		if err := changeCheck(ctx, j, r, args); err != nil {
			return err
		}
	}
	if ok && slices.Contains(fields, "publish") {
		if err := publish(ctx, j, r, args.Publish); err != nil {
			return err
		}
	}
	if ok && (r.Own.FilesChanging || slices.Contains(fields, "files")) {
		if err := changeFiles(ctx, j, r, args); err != nil {
			return err
		}
	}
	r.Spec, r.Own.FilesChanging = catalog.Values(j.Args), false
	r.Generation++
	return j.put(r, r.Own.Phase)
}

// restoreNetwork undoes the changes of an unfinished replacement to the network namespace and the published ports.
func restoreNetwork(ctx context.Context, j *job, r *record) error {
	if j.Networks == nil {
		return nil
	}
	if r.Own.Namespace == "" {
		return j.Networks.Release(ctx, ownerOf(r))
	}
	args, err := argsOf(r)
	if err != nil {
		return err
	}
	return publish(ctx, j, r, args.Publish)
}

// keepPublished repairs the published ports of a container.
func keepPublished(ctx context.Context, j *job, r *record) ([]sal.Drift, error) {
	publishing, ok := j.Networks.(sal.Publishing)
	if asked, _ := r.Spec["publish"].([]any); !ok || len(asked) == 0 {
		return nil, nil
	}
	published, drift, err := publishing.Publisher().Keep(ctx, ownerOf(r))
	if err != nil || slices.Equal(published, r.Own.Published) {
		return drift, err
	}
	r.Own.Published = published // the operator opened or closed addresses
	return drift, j.put(r, r.Own.Phase)
}
