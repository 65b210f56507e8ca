package containerd

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/containerd/containerd/v2/core/images"

	"writ"
	"writ/internal/test/ociregistry"
	"writ/internal/test/testenv"
	"writ/sal/containerd/imagestore"
	"writ/sal/containerd/registry"
)

// from makes the driver pull from a registry, without accounts.
func (b *fixture) from(s *ociregistry.Server) {
	policy, err := registry.ParsePolicy([]string{s.Host})
	if err != nil {
		b.Fatal(err)
	}
	b.driver.Registries = registry.Source{Policy: policy, Authorities: s.Authorities}
	b.driver.Budget = imagestore.Budget{Dir: b.host}
}

// pulled returns the pulled images at the daemon.
func (b *fixture) pulled() []images.Image {
	b.Helper()
	daemon, err := b.driver.open()
	if err != nil {
		b.Fatal(err)
	}
	all, err := daemon.ImageService().List(b.driver.in(b.Context()))
	if err != nil {
		b.Fatal(err)
	}
	return slices.DeleteFunc(all, func(i images.Image) bool { return !strings.HasPrefix(i.Name, "writ/pulled/") })
}

// Promise: Volumes and images: A container runs the image that the signed digest names, pulled by its own project.
// How: the name of an image at the daemon contains the project; each project downloads all blobs of its images.
// Also: TestStoredBlobsArePulledAgain.
func TestContainerRunsImageOfRegistry(t *testing.T) {
	b := newFixture(t, testenv.HomeInMemory(t, "containerd"))
	s := ociregistry.Start(t)
	b.from(s)
	image := ociregistry.FromArchive(t, busybox(t).Path)
	reference := s.Host + "/team/web:1@" + s.Push(t, "team/web:1", image)

	b.must("container.create", "web", map[string]any{"image": reference})
	if got := b.sh("web", "echo $FROM_IMAGE"); got != "yes\n" {
		t.Errorf("it says %q", got)
	}
	s.Seen()
	b.must("container.create", "second", map[string]any{"image": reference})
	if seen := s.Seen(); len(seen) > 0 {
		t.Errorf("the same image of the same project was pulled again: %q", seen)
	}
	foreign := b.request("container.create", "web", map[string]any{"image": reference}, nil)
	foreign.Resource.Project = "0192f6c2-0000-7000-8000-0000000000ff"
	if _, err := b.driver.Do(t.Context(), foreign); err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(s.Seen(), func(q string) bool { return strings.Contains(q, "/blobs/") }) {
		t.Error("another project got the image without pulling it")
	}
	if got := b.pulled(); len(got) != 2 || got[0].Labels["writ.bytes"] == "" {
		t.Errorf("the daemon has %v", got)
	}

	unknown := s.Host + "/team/web:2@sha256:" + strings.Repeat("ab", 32)
	if _, err := b.do("container.create", "other", map[string]any{"image": unknown}); writ.CodeOf(err) != writ.CodeImageUnknown {
		t.Errorf("an unknown image: %v", err)
	}
	if _, err := b.do("container.create", "web", map[string]any{"image": unknown}); writ.CodeOf(err) != writ.CodeImageUnknown {
		t.Errorf("an unknown image for an existing container: %v", err)
	}
	if got := b.sh("web", "echo $FROM_IMAGE"); got != "yes\n" {
		t.Errorf("after a failed replacement it says %q", got)
	}
	clear(t, b.driver)
	if got := b.pulled(); len(got) > 0 {
		t.Errorf("after the containers are gone the daemon has %v", got)
	}
}

// The limit is for all pulled images of the node, and a single pull may use half of what is free.
func TestPulledImagesAreLimited(t *testing.T) {
	b := newFixture(t, testenv.HomeInMemory(t, "containerd"))
	s := ociregistry.Start(t)
	b.from(s)
	image := ociregistry.FromArchive(t, busybox(t).Path)
	reference := s.Host + "/web:1@" + s.Push(t, "web:1", image)
	size := busybox(t).Bytes
	b.driver.Budget.Max = 5 * size // a plain layer counts packed and unpacked, and one image may take half of the free part
	b.must("container.create", "web", map[string]any{"image": reference})
	foreign := b.request("container.create", "web", map[string]any{"image": reference}, nil)
	foreign.Resource.Project = "0192f6c2-0000-7000-8000-0000000000ff"
	if _, err := b.driver.Do(t.Context(), foreign); writ.CodeOf(err) != writ.CodeQuotaExceeded {
		t.Errorf("a second image: %v", err)
	}
	b.must("container.delete", "web", nil)
	if _, err := b.driver.Do(t.Context(), foreign); err != nil {
		t.Errorf("after the first image is gone: %v", err)
	}
	clear(t, b.driver)
}

// A slow registry of one project must not hold up the others.
func TestDeletionDoesNotWaitForPull(t *testing.T) {
	b := newFixture(t, testenv.HomeInMemory(t, "containerd"))
	s := ociregistry.Start(t)
	b.from(s)
	reference := s.Host + "/web:1@" + s.Push(t, "web:1", ociregistry.FromArchive(t, busybox(t).Path))
	pulling, goOn := make(chan struct{}), make(chan struct{})
	s.Before(func(_ http.ResponseWriter, r *http.Request) bool {
		if strings.Contains(r.URL.Path, "/blobs/") {
			select {
			case pulling <- struct{}{}:
			case <-goOn:
			}
			<-goOn
		}
		return false
	})
	b.must("container.create", "own", map[string]any{"image": "busybox"})
	foreign := b.request("container.create", "web", map[string]any{"image": reference}, nil)
	foreign.Resource.Project = "0192f6c2-0000-7000-8000-0000000000ff"
	made := make(chan error, 1)
	go func() {
		_, err := b.driver.Do(t.Context(), foreign)
		made <- err
	}()
	<-pulling
	b.must("container.delete", "own", nil) // would never return if it waited
	close(goOn)
	if err := <-made; err != nil {
		t.Errorf("the pull: %v", err)
	}
	clear(t, b.driver)
}

// Promise: Volumes and images: A registry that the operator removes serves no new container, also if the node has the
// image; existing containers keep running.
func TestRemovedRegistryServesNoContainer(t *testing.T) {
	b := newFixture(t, testenv.HomeInMemory(t, "containerd"))
	s, other := ociregistry.Start(t), ociregistry.Start(t)
	image := ociregistry.FromArchive(t, busybox(t).Path)
	digest := s.Push(t, "web:1", image)
	if other.Push(t, "web:1", image) != digest {
		t.Fatal("the registries have different images")
	}
	trust := func(hosts ...string) {
		t.Helper()
		policy, err := registry.ParsePolicy(hosts)
		if err != nil {
			t.Fatal(err)
		}
		all := s.Authorities.Clone()
		all.AddCert(other.Certificate)
		b.driver.Registries = registry.Source{Policy: policy, Authorities: all}
	}
	trust(s.Host)
	b.driver.Budget = imagestore.Budget{Dir: b.host}
	first := map[string]any{"image": s.Host + "/web:1@" + digest}
	b.must("container.create", "web", first)
	trust(other.Host)
	if _, err := b.do("container.create", "second", first); writ.CodeOf(err) != writ.CodeRegistryForbidden {
		t.Errorf("a second container of the image: %v", err)
	}
	b.must("container.stop", "web", nil)
	b.must("container.start", "web", nil)
	b.must("container.create", "web", first) // unchanged
	s.Seen()
	other.Seen()
	b.must("container.create", "third", map[string]any{"image": other.Host + "/web:1@" + digest})
	if seen := other.Seen(); !slices.ContainsFunc(seen, func(q string) bool { return strings.Contains(q, "/blobs/") }) {
		t.Errorf("the image of the removed registry was used as one of another registry, which was asked %q", seen)
	}
	if seen := s.Seen(); len(seen) > 0 {
		t.Errorf("the removed registry was asked %q", seen)
	}
	clear(t, b.driver)
}

func TestUnreadableDiskHoldsNoPulledImage(t *testing.T) {
	b := newFixture(t, testenv.HomeInMemory(t, "containerd"))
	s := ociregistry.Start(t)
	b.from(s)
	b.driver.Budget.Dir = "/missing"
	reference := s.Host + "/web:1@" + s.Push(t, "web:1", ociregistry.FromArchive(t, busybox(t).Path))
	if _, err := b.do("container.create", "web", map[string]any{"image": reference}); err == nil || !strings.Contains(err.Error(), "measure the disk of the images") {
		t.Errorf("on a disk of unknown size: %v", err)
	}
	clear(t, b.driver)
}
