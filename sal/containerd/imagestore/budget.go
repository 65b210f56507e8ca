package imagestore

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"

	"github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/images"

	"writ"
	"writ/internal/diskspace"
	"writ/sal/containerd/registry"
)

// labelBytes is the label that holds the disk space of an image from a registry, in bytes: its blobs and its unpacked
// layers.
const labelBytes = "writ.bytes"

// maxPulled limits the images of a project from registries, because each pull lists all images.
const maxPulled = 1000

// Budget limits the disk space of all images from registries together, and the part of each project.
type Budget struct {
	Dir string // a directory on the disk of the images
	Max int64  // in bytes; 0 means a quarter of the disk

	mu      sync.Mutex
	granted map[writ.ProjectID]int64 // bytes that pulls in progress may use
}

// grant is the permission of a pull.
type grant struct {
	most    int64  // bytes that the pull may use
	of      string // the limit that determines most, for errors
	perFile int64  // minimum size of a file of the image in bytes, on average
	done    func() // ends the grant: call it when the image has its label, or after a failure
}

// grant returns the number of bytes that a pull of a project may use: at most half of the free bytes. So concurrent
// pulls together stay below the limit. The error is QUOTA_EXCEEDED if the project has maxPulled images.
func (b *Budget) grant(ctx context.Context, daemon *client.Client, project writ.ProjectID) (grant, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	all, err := daemon.ImageService().List(ctx)
	if err != nil {
		return grant{}, Failed("list the images", err)
	}
	limit, err := diskspace.Share(b.Dir, b.Max)
	perFile, wrong := diskspace.PerFile(b.Dir)
	if err := errors.Join(err, wrong); err != nil {
		return grant{}, Failed("measure the disk of the images", err)
	}
	g, err := b.divide(limit, all, project)
	if err != nil {
		return grant{}, err
	}
	if b.granted == nil {
		b.granted = make(map[writ.ProjectID]int64)
	}
	b.granted[project] += g.most
	g.perFile = perFile
	g.done = func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.granted[project] -= g.most; b.granted[project] == 0 {
			delete(b.granted, project)
		}
	}
	return g, nil
}

// divide returns the grant of a project, given these images and the grants of pulls in progress. A project may use
// three quarters of the limit, so that other projects can still pull an image. The caller holds mu.
func (b *Budget) divide(limit int64, all []images.Image, project writ.ProjectID) (grant, error) {
	free, own, count := limit, limit/4*3, 0
	take := func(by writ.ProjectID, bytes int64) {
		if free -= bytes; by == project {
			own -= bytes
		}
	}
	for by, bytes := range b.granted {
		take(by, bytes)
	}
	for _, i := range all {
		by, ok := pulledBy(i.Name)
		if !ok {
			continue
		}
		bytes, _ := strconv.ParseInt(i.Labels[labelBytes], 10, 64)
		if take(by, bytes); by == project {
			count++
		}
	}
	if count >= maxPulled {
		return grant{}, writ.Errorf(writ.CodeQuotaExceeded,
			"the project already has %d images from registries on this node, the maximum", count).
			WithHint("delete unused containers, or use another node")
	}
	free, own = max(free, 0)/2, max(own, 0)
	if own < free {
		return grant{most: own, of: "that the project may still use: it gets three quarters of the space for images"}, nil
	}
	return grant{most: free, of: registry.FreeForImages}, nil
}

// pulledBy returns the project that pulled an image from a registry.
func pulledBy(name string) (project writ.ProjectID, ok bool) {
	rest, ok := strings.CutPrefix(name, pulledPrefix)
	by, _, _ := strings.Cut(rest, "@")
	return writ.ProjectID(by), ok
}
