package testenv

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// Archive is a container image as a file.
type Archive struct {
	Path   string
	SHA256 string // in hex
	Bytes  int64
}

// busybox makes the archive once for all tests of a process.
var busybox = sync.OnceValues(func() ([]byte, error) {
	program, err := exec.LookPath("busybox")
	if err != nil {
		return nil, err
	}
	return makeArchive(program, nil)
})

// Busybox returns an OCI archive of one layer with busybox in it, whose own command says "ready" and then waits until it is asked to end. It
// skips the test as Need does.
func Busybox(t testing.TB) Archive {
	t.Helper()
	Need(t, "busybox")
	text, err := busybox()
	if err != nil {
		t.Fatal(err)
	}
	return archive(t, text)
}

// BusyboxThatSays is the same with an image that says more of its containers, in the words of OCI. The user web is a member of the group log there.
func BusyboxThatSays(t testing.TB, more map[string]any) Archive {
	t.Helper()
	text, err := makeArchive(Need(t, "busybox"), more)
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

// makeArchive writes an OCI archive by hand.
func makeArchive(busybox string, more map[string]any) ([]byte, error) {
	program, err := os.ReadFile(busybox)
	if err != nil {
		return nil, err
	}
	var layer bytes.Buffer
	w := tar.NewWriter(&layer)
	file := func(name string, mode int64, text []byte) {
		err = errors.Join(err, w.WriteHeader(&tar.Header{Name: name, Mode: mode, Size: int64(len(text))}))
		_, wrong := w.Write(text)
		err = errors.Join(err, wrong)
	}
	for _, dir := range []string{"bin/", "etc/", "tmp/"} {
		err = errors.Join(err, w.WriteHeader(&tar.Header{Name: dir, Mode: 0o755, Typeflag: tar.TypeDir}))
	}
	file("bin/busybox", 0o755, program)
	file("etc/passwd", 0o644, []byte("root:x:0:0::/:/bin/sh\nweb:x:33:34::/:/bin/sh\n"))
	file("etc/group", 0o644, []byte("root:x:0:\nweb:x:34:\nlog:x:7:web\n"))
	for name := range strings.FieldsSeq("sh sleep cat echo env hostname id ls head ping nc false touch yes ulimit wc dd") {
		err = errors.Join(err, w.WriteHeader(&tar.Header{Name: "bin/" + name, Typeflag: tar.TypeSymlink, Linkname: "busybox"}))
	}
	if err := errors.Join(err, w.Close()); err != nil {
		return nil, err
	}

	config := map[string]any{"Env": []string{"PATH=/bin", "FROM_IMAGE=yes"}, "Cmd": []string{"sh", "-c", `trap "exit 0" TERM; echo ready; while :; do sleep 1000 & wait; done`}}
	maps.Copy(config, more)
	o := NewOCI()
	manifest := o.Image(map[string]any{
		"architecture": "amd64", "os": "linux",
		"config": config,
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{DigestOf(layer.Bytes())}},
	}, o.Blob(LayerType, layer.Bytes()))
	manifest["annotations"] = map[string]string{"io.containerd.image.name": "docker.io/library/somebody-elses:latest"}
	return o.Index(manifest).Bytes()
}
