package imagestore

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/containerd/containerd/v2/core/images"

	"writ"
	"writ/sal/containerd/registry"
)

func pulledImage(project writ.ProjectID, digest int, bytes int64) images.Image {
	return images.Image{
		Name: fmt.Sprintf("%s%s@sha256:%064x", pulledPrefix, project, digest), Labels: map[string]string{labelBytes: strconv.FormatInt(bytes, 10)},
	}
}

// Promise: Volumes and images: A project uses at most three quarters of a node's space for images at registries, and at
// most 1,000 of these images.
func TestProjectsShareSpaceForImages(t *testing.T) {
	t.Parallel()
	const own = "that the project may still use: it gets three quarters of the space for images"
	for name, tt := range map[string]struct {
		all     []images.Image
		granted map[writ.ProjectID]int64
		most    int64
		of      string
	}{
		"empty":                 {nil, nil, 500, registry.FreeForImages},
		"used by another":       {[]images.Image{pulledImage("b", 1, 900)}, nil, 50, registry.FreeForImages},
		"a little used":         {[]images.Image{pulledImage("a", 1, 400)}, nil, 300, registry.FreeForImages},
		"much used":             {[]images.Image{pulledImage("a", 1, 400), pulledImage("a", 2, 300)}, nil, 50, own},
		"all of its part":       {[]images.Image{pulledImage("a", 1, 800)}, nil, 0, own},
		"granted to itself":     {nil, map[writ.ProjectID]int64{"a": 700}, 50, own},
		"granted to another":    {nil, map[writ.ProjectID]int64{"b": 700}, 150, registry.FreeForImages},
		"archives do not count": {[]images.Image{{Name: archivePrefix + "ab", Labels: map[string]string{labelBytes: "900"}}}, nil, 500, registry.FreeForImages},
		"more than there is":    {[]images.Image{pulledImage("b", 1, 2000)}, nil, 0, registry.FreeForImages},
	} {
		b := &Budget{granted: tt.granted}
		g, err := b.divide(1000, tt.all, "a")
		if err != nil || g.most != tt.most || g.of != tt.of {
			t.Errorf("%s: %d %s, %v; want %d %s", name, g.most, g.of, err, tt.most, tt.of)
		}
	}
	var many []images.Image
	for n := range maxPulled {
		many = append(many, pulledImage("a", n, 0))
	}
	if _, err := (&Budget{}).divide(1000, many, "a"); writ.CodeOf(err) != writ.CodeQuotaExceeded || !strings.Contains(err.Error(), "1000 images") {
		t.Errorf("one image more: %v", err)
	}
	if _, err := (&Budget{}).divide(1000, many, "b"); err != nil {
		t.Errorf("an image of another project: %v", err)
	}
}
