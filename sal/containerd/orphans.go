package containerd

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/containers"
	"github.com/containerd/containerd/v2/core/snapshots"

	"writ"
	"writ/sal"
	"writ/sal/containerd/imagestore"
)

// Orphans returns containers, layers and images at the daemon, files, and network namespaces without a record.
func (d *Driver) Orphans(ctx context.Context) ([]sal.Orphan, error) {
	daemon, err := d.reachCached(ctx)
	if err != nil {
		return nil, err
	}
	ctx = d.in(ctx)
	var all []sal.Orphan
	atDaemon, layers, err := inventory(ctx, daemon)
	if err != nil {
		return nil, err
	}
	images, err := daemon.ImageService().List(ctx)
	if err != nil {
		return nil, failed("list the images", err)
	}
	files, err := os.ReadDir(filepath.Join(d.Dir, "containers"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, sal.HostError("list the files of containers", err)
	}
	var owners []sal.Owner
	if d.Networks != nil {
		if owners, err = d.Networks.Owners(ctx); err != nil {
			return nil, err
		}
	}

	// Records are read last, so that each object listed above already has its record.
	records, damaged, err := recordsIn(d.Dir).List()
	if err != nil {
		return nil, err
	}
	known := indexOf(records, damaged)
	all = sal.DamagedOrphans(known.damaged)
	for _, c := range atDaemon {
		known.images[c.Image] = true
		if !known.has(c.ID) {
			remedy := d.ctr("tasks", "rm", "-f", c.ID) + "; " + d.ctr("containers", "rm", c.ID)
			all = append(all, sal.Orphan{Kind: "container", Name: c.ID, Of: hostNameIn(c.ID), Remedy: remedy})
		}
		delete(layers, c.ID)
	}
	for id, snapshotter := range layers {
		if !known.has(id) {
			all = append(all, sal.Orphan{
				Kind: "snapshot", Name: id, Of: hostNameIn(id),
				Remedy: d.ctr("snapshots", "--snapshotter", snapshotter, "rm", id),
			})
		}
	}
	for _, i := range images {
		if !known.images[i.Name] && !known.unfinished {
			all = append(all, sal.Orphan{Kind: "image", Name: i.Name, Remedy: d.ctr("images", "rm", i.Name)})
		}
	}
	for _, f := range files {
		if !known.places[f.Name()] {
			path := filepath.Join(d.Dir, "containers", f.Name())
			all = append(all,
				sal.Orphan{Kind: "directory", Name: path, Of: f.Name(), Remedy: sal.Command("rm", "-r", path)})
		}
	}
	for _, o := range owners {
		if o.Resource.Kind == writ.KindContainer && !known.uids[o.UID] && !known.places[o.Resource.HostName()] {
			all = append(all,
				sal.Orphan{Kind: "network namespace", Name: o.Resource.String(), Of: o.Resource.HostName()})
		}
	}
	slices.SortFunc(all, func(a, b sal.Orphan) int { return strings.Compare(a.Kind+" "+a.Name, b.Kind+" "+b.Name) })
	return all, nil
}

// recordIndex holds the objects that belong to records.
type recordIndex struct {
	containers, images, places map[string]bool
	uids                       map[writ.UID]bool
	damaged                    []sal.Damaged
	unfinished                 bool // a container is being made, and its image may be in the middle of an import
}

func indexOf(records []*record, damaged []sal.Damaged) *recordIndex {
	k := &recordIndex{
		damaged: damaged, containers: map[string]bool{}, images: map[string]bool{}, places: map[string]bool{},
		uids: map[writ.UID]bool{},
	}
	for _, r := range records {
		k.containers[r.Own.Container], k.containers[r.Own.Other] = true, true
		k.places[r.Resource.HostName()] = true
		k.uids[r.UID], k.uids[uidOn(r.UID, 1)] = true, true
		k.unfinished = k.unfinished || r.Own.Phase == making || r.Own.Phase == replacing
	}
	for _, r := range damaged {
		k.places[r.HostName] = true
		k.unfinished = true // it may be in the middle of an import
	}
	return k
}

// has reports whether a record, possibly a damaged one, refers to a container at the daemon.
func (k *recordIndex) has(id string) bool {
	return k.containers[id] || slices.ContainsFunc(k.damaged, func(d sal.Damaged) bool { return isOf(d.HostName, id) })
}

// hostNameIn returns the host name of the container with this ID at the daemon.
func hostNameIn(id string) string {
	name, _, _ := strings.Cut(id, "-")
	return name
}

// inventory returns the containers of the daemon, and the snapshotters of container layers by container ID.
func inventory(
	ctx context.Context, daemon *client.Client,
) (all []containers.Container, layers map[string]string, err error) {
	all, err = daemon.ContainerService().List(ctx)
	if err != nil {
		return nil, nil, failed("list the containers", err)
	}
	layers = map[string]string{}
	for _, name := range imagestore.Snapshotters {
		err := daemon.SnapshotService(name).Walk(ctx, func(_ context.Context, s snapshots.Info) error {
			if s.Kind == snapshots.KindActive {
				layers[s.Name] = name
			}
			return nil
		})
		if err != nil && !gone(err) && !imagestore.NoSnapshotter(err) {
			return nil, nil, failed("list the layers", err)
		}
	}
	return all, layers, nil
}
