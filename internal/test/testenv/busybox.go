package testenv

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// Archive is a container image in a file.
type Archive struct {
	Path   string
	SHA256 string // in hex
	Bytes  int64
}

// busybox builds the archive once for all tests of a process.
var busybox = sync.OnceValues(func() ([]byte, error) {
	program, err := exec.LookPath("busybox")
	if err != nil {
		return nil, err
	}
	return makeArchive(program, nil, nil)
})

// Busybox returns an OCI archive with one layer that contains busybox. Its default command prints "ready" and waits for
// SIGTERM. It skips the test like Need.
func Busybox(t testing.TB) Archive {
	t.Helper()
	Need(t, "busybox")
	text, err := busybox()
	if err != nil {
		t.Fatal(err)
	}
	return archive(t, text)
}

// BusyboxThatSays works like Busybox, with the fields in `more` added to the image config. The user web is a member of
// the group log. The entries in `changed` form a second layer.
func BusyboxThatSays(t testing.TB, more map[string]any, changed ...LayerEntry) Archive {
	t.Helper()
	text, err := makeArchive(Need(t, "busybox"), more, changed)
	if err != nil {
		t.Fatal(err)
	}
	return archive(t, text)
}

func archive(t testing.TB, text []byte) Archive {
	t.Helper()
	a := Archive{filepath.Join(t.TempDir(), "busybox.tar"), fmt.Sprintf("%x", sha256.Sum256(text)), int64(len(text))}
	if err := os.WriteFile(a.Path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return a
}

// LayerEntry is a tar entry of a layer. The length of Text replaces Header.Size.
type LayerEntry struct {
	tar.Header
	Text string
}

// packLayer returns the tar of a layer.
func packLayer(entries []LayerEntry) ([]byte, error) {
	var layer bytes.Buffer
	w := tar.NewWriter(&layer)
	for _, e := range entries {
		e.Size = int64(len(e.Text))
		if err := w.WriteHeader(&e.Header); err != nil {
			return nil, err
		}
		if _, err := w.Write([]byte(e.Text)); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return layer.Bytes(), err
}

// makeArchive builds an OCI archive, with a second layer if `changed` has entries.
func makeArchive(busybox string, more map[string]any, changed []LayerEntry) ([]byte, error) {
	program, err := os.ReadFile(busybox)
	if err != nil {
		return nil, err
	}
	var entries []LayerEntry
	for _, dir := range []string{"bin/", "etc/", "tmp/"} {
		entries = append(entries, LayerEntry{Header: tar.Header{Name: dir, Mode: 0o755, Typeflag: tar.TypeDir}})
	}
	file := func(name string, mode int64, text string) {
		entries = append(entries, LayerEntry{tar.Header{Name: name, Mode: mode}, text})
	}
	file("bin/busybox", 0o755, string(program))
	file("etc/passwd", 0o644, "root:x:0:0::/:/bin/sh\nweb:x:33:34::/:/bin/sh\n")
	file("etc/group", 0o644, "root:x:0:\nweb:x:34:\nlog:x:7:web\n")
	for name := range strings.FieldsSeq("sh sleep cat echo env hostname id ls head ping nc false touch yes ulimit wc dd") {
		entries = append(entries,
			LayerEntry{Header: tar.Header{Name: "bin/" + name, Typeflag: tar.TypeSymlink, Linkname: "busybox"}})
	}
	o := NewOCI()
	var layers []map[string]any
	var diffs []string
	for _, part := range [][]LayerEntry{entries, changed} {
		if len(part) == 0 {
			continue
		}
		layer, err := packLayer(part)
		if err != nil {
			return nil, err
		}
		layers, diffs = append(layers, o.Blob(LayerType, layer)), append(diffs, DigestOf(layer))
	}

	config := map[string]any{
		"Env": []string{"PATH=/bin", "FROM_IMAGE=yes"},
		"Cmd": []string{"sh", "-c", `trap "exit 0" TERM; echo ready; while :; do sleep 1000 & wait; done`},
	}
	maps.Copy(config, more)
	manifest := o.Image(map[string]any{
		"architecture": "amd64", "os": "linux",
		"config": config,
		"rootfs": map[string]any{"type": "layers", "diff_ids": diffs},
	}, layers...)
	manifest["annotations"] = map[string]string{"io.containerd.image.name": "docker.io/library/somebody-elses:latest"}
	return o.Index(manifest).Bytes()
}
