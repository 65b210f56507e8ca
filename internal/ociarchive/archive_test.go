package ociarchive

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"writ"
	"writ/internal/test/testenv"
)

type object = map[string]any

// most limits the unpacked layers in these tests, in bytes.
const most = 1 << 20

var (
	own     = testenv.TextLayer("the layer that the archive has")
	victims = testenv.TextLayer("the layer that somebody else has")
)

var layoutText = []byte(`{"imageLayoutVersion":"1.0.0"}`)

// emptyList is a list of 4 MiB, and emptyEntries an index with such a list.
var (
	emptyList    = []byte("[" + strings.Repeat("{},", maxText/3-50) + "{}]")
	emptyEntries = slices.Concat([]byte(`{"schemaVersion":2,"manifests":`), emptyList, []byte("}"))
)

func packGzip(t testing.TB, text []byte) []byte {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, err := w.Write(text)
	if err := errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func packZstd(t testing.TB, text []byte) []byte {
	var b bytes.Buffer
	w, err := zstd.NewWriter(&b)
	if err != nil {
		t.Fatal(err)
	}
	_, err = w.Write(text)
	if err := errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// configOf returns the config of an image for this machine with these unpacked layers.
func configOf(unpacked ...[]byte) object {
	ids := []string{}
	for _, text := range unpacked {
		ids = append(ids, testenv.DigestOf(text))
	}
	return object{"architecture": runtime.GOARCH, "os": "linux", "rootfs": object{"type": "layers", "diff_ids": ids}}
}

// with sets the platform of a descriptor.
func with(descriptor object, os, architecture string) object {
	descriptor["platform"] = object{"os": os, "architecture": architecture}
	return descriptor
}

// checked returns the result of a check.
func checked(t testing.TB, text []byte) error {
	t.Helper()
	path := filepath.Join(t.TempDir(), "a")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	return check(t.Context(), f, most)
}

// An archive is rejected if containerd would look up any part that the archive does not contain, in any order.
func TestArchiveContainsEachNamedLayer(t *testing.T) {
	const (
		gzipped = testenv.LayerType + "+gzip"
		zstded  = testenv.LayerType + "+zstd"
		docker  = "application/vnd.docker.image.rootfs.diff.tar"
	)
	zeros := make([]byte, most+1)
	deepDirs := testenv.SparseFile(strings.Repeat("d/", most/blockBytes)+"zeros", 0) // an entry with many missing parents
	whole := func(o *testenv.OCI) object { return o.Image(configOf(own), o.Blob(testenv.LayerType, own)) }
	lacking := func(o *testenv.OCI) object {
		return o.Image(configOf(victims), testenv.Describe(testenv.LayerType, victims))
	}
	one := func(mediaType string, packed, unpacked []byte) func(o *testenv.OCI) {
		return func(o *testenv.OCI) { o.Index(o.Image(configOf(unpacked), o.Blob(mediaType, packed))) }
	}
	index := func(manifests ...object) object { return object{"schemaVersion": 2, "manifests": manifests} }
	for name, tt := range map[string]struct {
		make func(o *testenv.OCI)
		says string // "" if valid
	}{
		"a plain layer":       {one(testenv.LayerType, own, own), ""},
		"gzip":                {one(gzipped, packGzip(t, own), own), ""},
		"zstd":                {one(zstded, packZstd(t, own), own), ""},
		"gzip called zstd":    {one(zstded, packGzip(t, own), own), ""},
		"gzip as Docker does": {one(docker, packGzip(t, own), own), ""},
		"plain, called gzip":  {one(gzipped, own, own), ""},
		"as much as may be":   {one(gzipped, packGzip(t, zeros[blockBytes+1:]), zeros[blockBytes+1:]), ""},
		"a layer twice": {func(o *testenv.OCI) {
			layer := o.Blob(gzipped, packGzip(t, zeros[:most/2-blockBytes]))
			o.Index(o.Image(configOf(zeros[:most/2-blockBytes], zeros[:most/2-blockBytes]), layer, layer))
		}, ""},
		"in two images": {func(o *testenv.OCI) {
			a, b := o.Blob(gzipped, packGzip(t, zeros[:most/2+1])), o.Blob(gzipped, packGzip(t, own))
			o.Index(o.Image(configOf(zeros[:most/2+1]), a), o.Image(configOf(zeros[:most/2+1], own), a, b))
		}, ""},
		"no layer": {func(o *testenv.OCI) { o.Index(o.Image(configOf())) }, ""},
		"in another index": {func(o *testenv.OCI) {
			o.Index(o.Text(testenv.IndexType, index(with(whole(o), "linux", runtime.GOARCH))))
		}, ""},
		"other machines": {func(o *testenv.OCI) {
			o.Index(with(lacking(o), "linux", "s390x"), with(lacking(o), "unknown", "unknown"), whole(o))
		}, ""},
		"another by config": {func(o *testenv.OCI) {
			config := configOf(victims)
			config["architecture"] = "s390x"
			o.Index(o.Image(config, testenv.Describe(testenv.LayerType, victims)), whole(o))
		}, ""},

		"another diff_id":           {one(testenv.LayerType, own, victims), "has the diff_id"},
		"another diff_id, gzip":     {one(gzipped, packGzip(t, own), victims), "has the diff_id"},
		"another diff_id, zstd":     {one(zstded, packZstd(t, own), victims), "has the diff_id"},
		"gzip that is not unpacked": {one(testenv.LayerType, packGzip(t, own), own), "cannot be unpacked"},
		"an empty layer, and more": {func(o *testenv.OCI) {
			o.Index(o.Image(configOf(own, victims), o.Blob(testenv.LayerType, own)))
		}, "1 layers, but the config has 2"},
		"a layer more": {func(o *testenv.OCI) {
			o.Index(o.Image(configOf(own), o.Blob(testenv.LayerType, own), testenv.Describe(testenv.LayerType, victims)))
		}, "2 layers, but the config has 1"},
		"the first lacks one": {func(o *testenv.OCI) { o.Index(lacking(o), whole(o)) }, "is missing"},
		"the last lacks one":  {func(o *testenv.OCI) { o.Index(whole(o), lacking(o)) }, "is missing"},
		"one lacks one, in capitals": {func(o *testenv.OCI) {
			o.Index(whole(o), with(lacking(o), "LINUX", map[string]string{"amd64": "x86_64", "arm64": "AArch64"}[runtime.GOARCH]))
		}, "is missing"},
		"one lacks one, in another index": {func(o *testenv.OCI) { o.Index(whole(o), o.Text(testenv.IndexType, index(lacking(o)))) }, "is missing"},
		"another index lacks": {func(o *testenv.OCI) {
			o.Index(whole(o), object{"mediaType": testenv.IndexType, "digest": testenv.DigestOf(victims), "size": len(victims)})
		}, "is missing"},
		"another manifest lacks": {func(o *testenv.OCI) { o.Index(whole(o), testenv.Describe(testenv.ManifestType, victims)) }, "is missing"},
		"something else lacks":   {func(o *testenv.OCI) { o.Index(whole(o), testenv.Describe("text/plain", victims)) }, "is missing"},
		"the config lacks": {func(o *testenv.OCI) {
			config, _ := json.Marshal(configOf(own))
			o.Index(o.Text(testenv.ManifestType, testenv.Manifest(testenv.Describe(testenv.ConfigType, config), o.Blob(testenv.LayerType, own))))
		}, "is missing"},
		"once without a platform, and once with one": {func(o *testenv.OCI) {
			config := configOf(victims)
			config["architecture"] = "s390x"
			layer := testenv.Describe(testenv.LayerType, victims)
			o.Index(whole(o), o.Image(config, layer), with(o.Image(config, layer), "linux", runtime.GOARCH))
		}, "is missing"},
		"other machines only": {func(o *testenv.OCI) { o.Index(with(whole(o), "linux", "s390x")) }, "no image for linux/"},
		"a bomb, gzip":        {one(gzipped, packGzip(t, zeros), zeros), "more than 1 MiB"},
		"a bomb, zstd":        {one(zstded, packZstd(t, zeros), zeros), "more than 1 MiB"},
		"a bomb, plain":       {one(testenv.LayerType, zeros, zeros), "more than 1 MiB"},
		"a sparse file":       {one(testenv.LayerType, testenv.SparseLayer(most/2), testenv.SparseLayer(most/2)), ""},
		"a sparse bomb":       {one(testenv.LayerType, testenv.SparseLayer(most+1), testenv.SparseLayer(most+1)), "more than 1 MiB"},
		"a huge sparse bomb":  {one(gzipped, packGzip(t, testenv.SparseLayer(1<<62)), testenv.SparseLayer(1<<62)), "more than 1 MiB"},
		"many directories":    {one(testenv.LayerType, deepDirs, deepDirs), "more than 1 MiB"},
		"no tar file":         {one(testenv.LayerType, []byte("text"), []byte("text")), "cannot be unpacked"},
		"half of a tar file":  {one(testenv.LayerType, own[:513], own[:513]), "cannot be unpacked"},
		"a bomb in two": {func(o *testenv.OCI) {
			a, b := zeros[:most/2+1], append(bytes.Clone(zeros[:most/2]), 'x')
			o.Index(o.Image(configOf(a, b), o.Blob(gzipped, packGzip(t, a)), o.Blob(gzipped, packGzip(t, b))))
		}, "more than 1 MiB"},
		"a bomb twice": {func(o *testenv.OCI) {
			layer := o.Blob(gzipped, packGzip(t, zeros[:most/2+1]))
			o.Index(o.Image(configOf(zeros[:most/2+1], zeros[:most/2+1]), layer, layer))
		}, "more than 1 MiB"},
		"many layers": {func(o *testenv.OCI) {
			layer := o.Blob(gzipped, packGzip(t, own))
			layers, texts := slices.Repeat([]object{layer}, maxLayers+1), slices.Repeat([][]byte{own}, maxLayers+1)
			o.Index(o.Image(configOf(texts...), layers...))
		}, "at most 500"},
		"a window as big as memory":       {one(zstded, slices.Concat([]byte{0x28, 0xb5, 0x2f, 0xfd, 0, 20 << 3, byte(len(own)<<3 | 1), 0, 0}, own), own), "window"},
		"half of a layer":                 {one(gzipped, packGzip(t, own)[:20], own), "EOF"},
		"an encrypted layer":              {one(testenv.LayerType+"+encrypted", own, own), "which is not unpacked"},
		"an index of empty entries":       {func(o *testenv.OCI) { o.File("oci-layout", layoutText).File("index.json", emptyEntries) }, "values"},
		"Docker's index of empty entries": {func(o *testenv.OCI) { o.Index(whole(o)).File("manifest.json", emptyList) }, "values"},
		"a long index of Docker":          {func(o *testenv.OCI) { o.Index(whole(o)).File("manifest.json", make([]byte, maxText+1)) }, "too long"},
		"many tags":                       {func(o *testenv.OCI) { o.Index(slices.Repeat([]object{whole(o)}, 1000)...) }, ""},
		"many visits": {func(o *testenv.OCI) {
			next := whole(o)
			for range 2 {
				next = o.Text(testenv.IndexType, index(slices.Repeat([]object{next}, 100)...))
			}
			o.Index(next)
		}, "more than 10000 manifests and layers"},
		"many files": {func(o *testenv.OCI) {
			for i := range maxNames / fileBytes {
				o.File(strconv.Itoa(i), nil)
			}
			o.Index(whole(o))
		}, "too many files"},
		"long names": {func(o *testenv.OCI) {
			for i := range 9 {
				o.File(strconv.Itoa(i)+strings.Repeat("a", 1<<20-100), nil)
			}
			o.Index(whole(o))
		}, "too many files"},
		"no layout": {func(o *testenv.OCI) { o.File("index.json", []byte(`{}`)) }, "no oci-layout"},
		"another layout": {func(o *testenv.OCI) {
			o.File("oci-layout", []byte(`{"imageLayoutVersion":"2.0.0"}`)).File("index.json", []byte(`{}`))
		}, "2.0.0"},
		"no index":    {func(o *testenv.OCI) { o.File("oci-layout", []byte(`{"imageLayoutVersion":"1.0.0"}`)) }, "no index.json"},
		"two indexes": {func(o *testenv.OCI) { o.Index(whole(o)).File("./index.json", []byte(`{}`)) }, "two files index.json"},
		"two layouts": {func(o *testenv.OCI) { o.Index(whole(o)).File("oci-layout", []byte(`{}`)) }, "two files oci-layout"},
		"as Docker does": {func(o *testenv.OCI) {
			o.File("config", nil).File("layer", own).File("manifest.json", []byte(`[{"Config":"config","Layers":["layer"]}]`))
		}, "Docker archive"},
		"as Docker does, beside an index": {func(o *testenv.OCI) {
			whole(o)
			o.File("index.json", []byte(`{"schemaVersion":2}`)).File("manifest.json", []byte(`[{"Config":"config","Layers":["layer"]}]`))
		}, "Docker archive"},
	} {
		o := testenv.NewOCI()
		tt.make(o)
		text, err := o.Bytes()
		if err != nil {
			t.Fatal(name, err)
		}
		err = checked(t, text)
		if tt.says == "" && err != nil || tt.says != "" && (writ.CodeOf(err) != writ.CodeArgumentsInvalid || !strings.Contains(err.Error(), tt.says)) {
			t.Errorf("%s: %v, want %q", name, err, tt.says)
		}
	}
}

// containerd writes each file of an archive into its store, with the holes. Package tar expands a sparse blob too, so its
// content differs from the bytes in the archive.
func TestSparseFilesAreRejected(t *testing.T) {
	for what, name := range map[string]string{
		"a blob": "blobs/sha256/" + strings.TrimPrefix(testenv.DigestOf(make([]byte, 1024)), "sha256:"), "another file": "zeros",
		"a layout": "oci-layout",
	} {
		o := testenv.NewOCI()
		text, err := o.Index(o.Image(configOf(own), o.Blob(testenv.LayerType, own))).Bytes()
		if err != nil {
			t.Fatal(err)
		}
		if err := checked(t, append(testenv.SparseFile(name, 1024), text...)); err == nil || !strings.Contains(err.Error(), "sparse") {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// Five indexes name the next one 10,000 times each. Without a limit, checking this archive of 5 MB would take forever.
func TestArchiveCheckTakesBoundedTime(t *testing.T) {
	o := testenv.NewOCI()
	next := o.Text(testenv.IndexType, object{"schemaVersion": 2, "manifests": []object{}})
	var all []object
	for range 5 {
		all = nil
		for range 10_000 {
			all = append(all, next)
		}
		next = o.Text(testenv.IndexType, object{"schemaVersion": 2, "manifests": all})
	}
	text, err := o.Index(all...).Bytes()
	if err != nil {
		t.Fatal(err)
	}
	if err := checked(t, text); writ.CodeOf(err) != writ.CodeArgumentsInvalid {
		t.Errorf("it is %v", err)
	}
}

func TestCheckEndsWithItsContext(t *testing.T) {
	o := testenv.NewOCI()
	text, err := o.Index(o.Image(configOf(own), o.Blob(testenv.LayerType, own))).Bytes()
	path := filepath.Join(t.TempDir(), "a")
	if err := errors.Join(err, os.WriteFile(path, text, 0o600)); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := Check(ctx, f); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func FuzzArchive(f *testing.F) {
	o := testenv.NewOCI()
	layer := o.Blob(testenv.LayerType+"+gzip", packGzip(f, own))
	text, err := o.Index(o.Image(configOf(own), layer)).Bytes()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add([]byte("text"))
	f.Fuzz(func(t *testing.T, text []byte) {
		if err := checked(t, text); err != nil && writ.CodeOf(err) != writ.CodeArgumentsInvalid {
			t.Errorf("%v has no code", err)
		}
	})
}

// Values of a few bytes take a hundred times their length when they are decoded.
func TestDocumentsTakeLittleMemory(t *testing.T) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for _, into := range []any{new(ocispec.Index), new([]ocispec.Descriptor)} {
		text := emptyEntries
		if _, list := into.(*[]ocispec.Descriptor); list {
			text = emptyList
		}
		if err := Decode(text, into); err == nil {
			t.Errorf("%d bytes are decoded into %T", len(text), into)
		}
	}
	if runtime.ReadMemStats(&after); after.TotalAlloc-before.TotalAlloc > 1<<20 {
		t.Errorf("it took %d MiB", (after.TotalAlloc-before.TotalAlloc)>>20)
	}
	var got ocispec.Index
	text := []byte(`{"annotations":{"a":"` + strings.Repeat(`{\"[:,`, maxValues) + `"}}`)
	if err := Decode(text, &got); err != nil || len(got.Annotations["a"]) != 5*maxValues {
		t.Errorf("a long text: %v, %d bytes", err, len(got.Annotations["a"]))
	}
}
