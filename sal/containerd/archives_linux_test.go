package containerd

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"writ/internal/ociarchive"
	"writ/internal/test/testenv"
	"writ/sal"
)

// layout holds the files of an archive by name.
type layout map[string][]byte

// layoutOf reads an archive.
func layoutOf(t *testing.T, path string) layout {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	files := layout{}
	for r := tar.NewReader(bytes.NewReader(text)); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err == nil {
			files[header.Name], err = io.ReadAll(r)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// blob adds a blob and returns its descriptor.
func (l layout) blob(mediaType string, value any) map[string]any {
	text, isText := value.([]byte)
	if !isText {
		text, _ = json.Marshal(value)
	}
	d := testenv.Describe(mediaType, text)
	l["blobs/sha256/"+testenv.DigestOf(text)[len("sha256:"):]] = text
	return d
}

// read parses the blob of a descriptor.
func (l layout) read(d map[string]any) (parsed map[string]any) {
	_ = json.Unmarshal(l["blobs/sha256/"+d["digest"].(string)[len("sha256:"):]], &parsed)
	return parsed
}

// index replaces the index of the archive.
func (l layout) index(manifests ...map[string]any) {
	l["index.json"], _ = json.Marshal(map[string]any{"schemaVersion": 2, "manifests": manifests})
}

// write writes the archive as bsdtar does, with directories and names that begin with a dot.
func (l layout) write(t *testing.T) sal.Image {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	err := w.WriteHeader(&tar.Header{Name: "./", Typeflag: tar.TypeDir, Mode: 0o755, Format: tar.FormatPAX})
	for _, name := range slices.Sorted(maps.Keys(l)) {
		err = errors.Join(err, w.WriteHeader(&tar.Header{Name: "./" + name, Size: int64(len(l[name])), Mode: 0o644, Format: tar.FormatPAX}))
		_, wrong := w.Write(l[name])
		err = errors.Join(err, wrong)
	}
	path := filepath.Join(t.TempDir(), "image.tar")
	if err = errors.Join(err, w.Close(), os.WriteFile(path, b.Bytes(), 0o600)); err != nil {
		t.Fatal(err)
	}
	return sal.Image{Path: path, Format: "oci", SHA256: fmt.Sprintf("%x", sha256.Sum256(b.Bytes())), Bytes: int64(b.Len())}
}

func with(descriptor map[string]any, more map[string]any) map[string]any {
	all := maps.Clone(descriptor)
	maps.Copy(all, more)
	return all
}

// repacked returns a manifest whose layers are compressed.
func (l layout) repacked(manifest map[string]any, mediaType string, pack func(io.Writer) io.WriteCloser) map[string]any {
	m := l.read(manifest)
	var layers []any
	for _, layer := range m["layers"].([]any) {
		text := l["blobs/sha256/"+layer.(map[string]any)["digest"].(string)[len("sha256:"):]]
		var b bytes.Buffer
		w := pack(&b)
		_, _ = w.Write(text)
		_ = w.Close()
		layers = append(layers, l.blob(mediaType, b.Bytes()))
	}
	return l.blob(testenv.ManifestType, with(m, map[string]any{"layers": layers}))
}

var (
	linux   = map[string]any{"platform": map[string]any{"os": "linux", "architecture": "amd64"}}
	linuxV1 = map[string]any{"platform": map[string]any{"os": "linux", "architecture": "amd64", "variant": "v1"}}
	foreign = map[string]any{"platform": map[string]any{"os": "linux", "architecture": "arm64", "variant": "v8"}}
	unknown = map[string]any{
		"platform": map[string]any{"os": "unknown", "architecture": "unknown"}, "annotations": map[string]any{"vnd.docker.reference.type": "attestation-manifest"},
	}
)

// archiveForms are forms in which tools write an image: each makes the index of an archive for one manifest.
var archiveForms = map[string]func(l layout, manifest map[string]any){
	"attested-by-buildx": func(l layout, manifest map[string]any) {
		claim := l.blob("application/vnd.in-toto+json", map[string]any{"predicateType": "https://slsa.dev/provenance/v0.2"})
		attested := l.blob(testenv.ManifestType, testenv.Manifest(l.blob(testenv.ConfigType, map[string]any{}), claim))
		inner := map[string]any{"schemaVersion": 2, "mediaType": testenv.IndexType, "manifests": []any{with(manifest, linux), with(attested, unknown)}}
		l.index(l.blob(testenv.IndexType, inner))
	},
	"foreign-first": func(l layout, manifest map[string]any) {
		l.index(with(testenv.Describe(testenv.ManifestType, []byte("elsewhere")), foreign), with(manifest, linuxV1))
	},
	"manifest-without-type": func(l layout, manifest map[string]any) {
		m := l.read(manifest)
		delete(m, "mediaType")
		l.index(l.blob(testenv.ManifestType, m))
	},
	"saved-by-docker": func(l layout, manifest map[string]any) {
		l["manifest.json"] = []byte(`[{"Config":"blobs/sha256/0","RepoTags":["a:b"],"Layers":[]}]`)
		l.index(manifest)
	},
	"gzip": func(l layout, manifest map[string]any) {
		l.index(l.repacked(manifest, testenv.LayerType+"+gzip", func(w io.Writer) io.WriteCloser { return gzip.NewWriter(w) }))
	},
	"zstd": func(l layout, manifest map[string]any) {
		l.index(l.repacked(manifest, testenv.LayerType+"+zstd", func(w io.Writer) io.WriteCloser { z, _ := zstd.NewWriter(w); return z }))
	},
}

func TestArchivesOfManyToolsMakeContainers(t *testing.T) {
	testenv.Nightly(t, "TestArchiveContainsEachNamedLayer of package internal/ociarchive checks archives without a daemon")
	b := newFixture(t, "")
	for name, form := range archiveForms {
		t.Run(name, func(t *testing.T) {
			layer := []testenv.LayerEntry{
				{Header: tar.Header{Name: "etc/.wh.group"}},    // removes a file of the layer below
				{Header: tar.Header{Name: "tmp/.wh..wh..opq"}}, // hides all files there in the layer below
				{Header: tar.Header{Name: "tmp/new", Mode: 0o644}, Text: name},
				{Header: tar.Header{Name: "linked", Typeflag: tar.TypeLink, Linkname: "tmp/new"}},
			}
			l := layoutOf(t, testenv.BusyboxThatSays(t, nil, layer...).Path)
			var index struct{ Manifests []map[string]any }
			if err := json.Unmarshal(l["index.json"], &index); err != nil {
				t.Fatal(err)
			}
			form(l, with(index.Manifests[0], map[string]any{"annotations": nil}))
			image := l.write(t)
			file, err := os.Open(image.Path)
			if err != nil {
				t.Fatal(err)
			}
			defer file.Close()
			if err := ociarchive.Check(t.Context(), file); err != nil {
				t.Fatal(err)
			}
			b.driver.Images = fetched{image}
			b.must("container.create", name, map[string]any{"image": "busybox"})
			if got, want := b.sh(name, "cat /linked; ls /tmp; ls /etc"), name+"new\nhosts\npasswd\n"; got != want {
				t.Errorf("got %q, want %q", got, want)
			}
			b.must("container.delete", name, nil)
		})
	}
}
