package containerd

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/containerd/containerd/v2/client"

	"writ"
	"writ/internal/test/testenv"
	"writ/sal"
	"writ/sal/containerd/imagestore"
)

// shelf holds images by name.
type shelf map[string]sal.Image

func (s shelf) Image(_ context.Context, _ writ.ProjectID, image writ.Ref) (sal.Image, error) {
	return s[image.Name], nil
}

// put writes an archive as the image name.
func (s shelf) put(t testing.TB, name string, o *testenv.OCI) {
	t.Helper()
	text, err := o.Bytes()
	path := filepath.Join(t.TempDir(), name)
	if err := errors.Join(err, os.WriteFile(path, text, 0o600)); err != nil {
		t.Fatal(err)
	}
	s[name] = sal.Image{Path: path, Format: "oci", SHA256: fmt.Sprintf("%x", sha256.Sum256(text)), Bytes: int64(len(text))}
}

// layerOf returns the layer of an archive with one image of one layer: another project needs only this to name it.
func layerOf(t testing.TB, archive sal.Image) (descriptor map[string]any) {
	t.Helper()
	f, err := os.Open(archive.Path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for r := tar.NewReader(f); ; {
		header, err := r.Next()
		if err != nil {
			t.Fatal("there is no manifest: ", err)
		}
		text, err := io.ReadAll(io.LimitReader(r, 1<<16))
		if err != nil {
			t.Fatal(err)
		}
		var manifest struct{ Layers []map[string]any }
		if json.Unmarshal(text, &manifest) == nil && strings.HasPrefix(header.Name, "blobs/") && len(manifest.Layers) == 1 {
			return manifest.Layers[0]
		}
	}
}

// configOf returns the config of an image that waits, with unpacked layers.
func configOf(diffIDs ...any) map[string]any {
	return map[string]any{
		"architecture": runtime.GOARCH, "os": "linux", "config": map[string]any{"Env": []string{"PATH=/bin"}, "Cmd": waits},
		"rootfs": map[string]any{"type": "layers", "diff_ids": diffIDs},
	}
}

// The daemon has a layer of another project. An archive that names the layer by its digest must not get it, and the
// error must not reveal whether the daemon has it.
//
// Promise: Volumes and images: A container has exactly the layers of its archive, never layers of another project's
// image with known digests.
// How: Each image in the archive contains its config and layers, and unpacked layers match the config; writ checks at
// the fetch and before the import.
// Also: TestAnArchiveIsNoImageButItsOwn, TestArchiveContainsEachNamedLayer.
func TestContainerGetsOnlyItsArchivesLayers(t *testing.T) {
	b := newFixture(t, testenv.HomeInMemory(t, "containerd"))
	images := shelf{"victim": busybox(t)}
	b.driver.Images = images
	layer := layerOf(t, images["victim"])
	var empty bytes.Buffer
	if err := tar.NewWriter(&empty).Close(); err != nil {
		t.Fatal(err)
	}

	o := testenv.NewOCI() // an empty layer, with the digest of the other one in its config
	images.put(t, "diff", o.Index(o.Image(configOf(layer["digest"]), o.Blob(testenv.LayerType, empty.Bytes()))))

	o = testenv.NewOCI() // an image without its layer, and a complete one
	images.put(t, "lacking", o.Index(
		o.Image(configOf(layer["digest"]), layer),
		o.Image(configOf(testenv.DigestOf(empty.Bytes())), o.Blob(testenv.LayerType, empty.Bytes())),
	))

	o = testenv.NewOCI() // Docker's format, beside a complete index
	o.File("index.json", nil).File("empty", empty.Bytes())
	config, err := json.Marshal(configOf(layer["digest"]))
	if err != nil {
		t.Fatal(err)
	}
	images.put(t, "docker", o.File("config", config).File("manifest.json", []byte(`[{"Config":"config","Layers":["empty"]}]`)))

	type heard struct {
		code writ.Code
		text string
		said []string
	}
	steal := func(name string) (h heard) {
		t.Helper()
		r := b.request("container.create", "thief", map[string]any{"image": name}, nil)
		r.Progress = func(text string) { h.said = append(h.said, text) }
		_, err := b.driver.Do(t.Context(), r)
		if err == nil {
			t.Errorf("%s: there is a container, with %s", name, b.sh("thief", "ls /bin"))
			b.must("container.delete", "thief", nil)
			return h
		}
		h.code, h.text = writ.CodeOf(err), err.Error()
		if h.code != writ.CodeArgumentsInvalid {
			t.Errorf("%s: %s %v", name, h.code, err)
		}
		return h
	}
	names := []string{"diff", "lacking", "docker"}
	alone := map[string]heard{}
	for _, name := range names {
		alone[name] = steal(name)
	}
	before := b.hear("container.create", "victim", map[string]any{"image": "victim"})
	for _, name := range names {
		b.importUnchecked(imagestore.EarlierPrefix+images[name].SHA256, images[name].Path) // as by an earlier version
		if h := steal(name); fmt.Sprint(h) != fmt.Sprint(alone[name]) {
			t.Errorf("%s: that another project has the layer is told: %v\nand otherwise %v", name, h, alone[name])
		}
	}
	if again := b.hear("container.create", "same", map[string]any{"image": "victim"}); !slices.Equal(before, again) {
		t.Errorf("that the daemon has an image is told: %q\nand otherwise %q", again, before)
	}
	b.must("container.delete", "victim", nil)
	b.must("container.delete", "same", nil)
	for _, left := range traces(t, b.driver, b.daemon, b.host) {
		if strings.HasPrefix(left, "image ") || strings.HasPrefix(left, "snapshot ") {
			t.Errorf("it leaves the %s", left)
		}
	}
}

// hear returns the progress messages of an operation.
func (b *fixture) hear(operation, name string, args map[string]any) (said []string) {
	b.Helper()
	r := b.request(operation, name, args, nil)
	r.Progress = func(text string) { said = append(said, text) }
	if _, err := b.driver.Do(b.Context(), r); err != nil {
		b.Fatal(err)
	}
	return said
}

// importUnchecked imports an archive into the daemon without the driver's check.
func (b *fixture) importUnchecked(name, path string) {
	b.Helper()
	daemon, err := b.driver.open()
	if err != nil {
		b.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	if _, err := daemon.Import(b.driver.in(b.Context()), f, client.WithIndexName(name), client.WithSkipMissing()); err != nil {
		b.Fatal(err)
	}
}

// An archive names itself like the image of another project, which must stay unchanged.
func TestAnArchiveIsNoImageButItsOwn(t *testing.T) {
	b := newFixture(t, testenv.HomeInMemory(t, "containerd"))
	images := shelf{"victim": busybox(t)}
	b.driver.Images = images
	var layer bytes.Buffer
	w := tar.NewWriter(&layer)
	if err := errors.Join(w.WriteHeader(&tar.Header{Name: "bin/", Mode: 0o755, Typeflag: tar.TypeDir}), w.Close()); err != nil {
		t.Fatal(err)
	}
	o := testenv.NewOCI()
	forged := o.Image(configOf(testenv.DigestOf(layer.Bytes())), o.Blob(testenv.LayerType, layer.Bytes()))
	forged["annotations"] = map[string]string{"io.containerd.image.name": imagestore.NameOf(images["victim"])}
	images.put(t, "forged", o.Index(forged))
	b.must("container.create", "victim", map[string]any{"image": "victim"})
	daemon, err := b.driver.open()
	if err != nil {
		t.Fatal(err)
	}
	target := func() string {
		image, err := daemon.GetImage(b.driver.in(t.Context()), imagestore.NameOf(images["victim"]))
		if err != nil {
			return err.Error()
		}
		return image.Target().Digest.String()
	}
	before := target()
	_, _ = b.do("container.create", "forged", map[string]any{"image": "forged"}) // fails, because it has no program
	if after := target(); after != before {
		t.Errorf("the image of another container was %s and is %s", before, after)
	}
	clear(t, b.driver)
}

func TestContainerRunsAsItsImageDefines(t *testing.T) {
	b := newFixture(t, "")
	image := testenv.BusyboxThatSays(t, map[string]any{"User": "web", "WorkingDir": "/tmp", "Entrypoint": []string{"env", "STARTED_BY=image"}})
	b.driver.Images = fetched{sal.Image{Path: image.Path, Format: "oci", SHA256: image.SHA256, Bytes: image.Bytes}}
	b.must("container.create", "web", map[string]any{"image": "busybox"})
	const line = "id -u; id -g; grep Groups /proc/1/status; pwd; echo $FROM_IMAGE; tr '\\0' '\\n' </proc/1/environ | grep STARTED_BY"
	if got, want := b.sh("web", line), "33\n34\nGroups:\t7 34 \n/tmp\nyes\nSTARTED_BY=image\n"; got != want {
		t.Errorf("it runs as %q, want %q", got, want)
	}
}
