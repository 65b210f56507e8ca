package image

import (
	"bytes"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"writ"
	"writ/internal/test/testenv"
	"writ/sal/catalog"
)

func TestAFullDiskIsReportedAndFreed(t *testing.T) {
	text := bytes.Repeat([]byte("0123456789abcdef"), 5<<16) // 5 MiB
	s := newImageServer(t, map[string][]byte{"/a": text})
	b := newFixture(t, s)
	b.host = testenv.NewDisk(t, filepath.Join(t.TempDir(), "disk"), 8).Dir
	b.Driver = open(s, b.host, nil)
	b.MaxBytes = 1 << 30 // larger than the disk
	local := filepath.Join(t.TempDir(), "local")
	if err := os.WriteFile(local, text, 0o600); err != nil {
		t.Fatal(err)
	}
	b.Dirs = []string{filepath.Dir(local)}
	if err := os.WriteFile(filepath.Join(b.host, "other"), text[:4<<20], 0o600); err != nil {
		t.Fatal(err)
	}
	for _, url := range []string{s.URL + "/a", "file://" + local} {
		_, err := b.fetch(t.Context(), "a", map[string]any{"url": url, "sha256": sum(text)})
		if writ.CodeOf(err) != writ.CodeDiskFull || writ.AsError(err).Hint == "" {
			t.Errorf("%s: it ended with %v", url, err)
		}
		if all, _ := b.List(t.Context()); len(all) > 0 || len(b.files()) > 0 {
			t.Errorf("%s left %v and %q", url, all, b.files())
		}
	}
}

// No space that the operator can free is enough.
func TestImageBeyondTheWholeDiskIsNotRetried(t *testing.T) {
	text := make([]byte, 16<<20)
	s := newImageServer(t, map[string][]byte{"/a": text})
	b := newFixture(t, s)
	b.host = testenv.NewDisk(t, filepath.Join(t.TempDir(), "disk"), 8).Dir
	b.Driver = open(s, b.host, nil)
	b.MaxBytes = 1 << 30
	local := filepath.Join(t.TempDir(), "local")
	if err := os.WriteFile(local, text, 0o600); err != nil {
		t.Fatal(err)
	}
	packed := filepath.Join(filepath.Dir(local), "packed") // a few KiB, 64 MiB when unpacked
	if err := os.WriteFile(packed+".raw", bytes.Repeat([]byte("data"), 16<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	if said, err := exec.Command(testenv.Need(t, "qemu-img"), "convert", "-c", "-O", "qcow2", packed+".raw", packed).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	unpacked, err := os.ReadFile(packed)
	if err != nil {
		t.Fatal(err)
	}
	b.Dirs = []string{filepath.Dir(local)}
	fetch := func(url string, args map[string]any) {
		t.Helper()
		args["url"] = url
		_, err := b.fetch(t.Context(), "a", args)
		if e := writ.AsError(err); e == nil || e.Code != writ.CodeDriverRefused || e.Hint == "" {
			t.Errorf("%s: it ended with %v", url, err)
		}
		if left := b.files(); len(left) > 0 {
			t.Errorf("%s: it left %v", url, left)
		}
	}
	fetch("file://"+packed, map[string]any{"sha256": sum(unpacked), "format": "qcow2"})
	fetch(s.URL+"/a", map[string]any{"sha256": sum(text)})
	fetch("file://"+local, map[string]any{"sha256": sum(text)})
}

// A full disk fails every write with DISK_FULL, which is retried. An image that can never fit is refused before that.
func TestOversizedImageIsRefusedBeforeAnyWrite(t *testing.T) {
	dir := t.TempDir()
	p := &part{reporter: &reporter{args: &catalog.ImageFetch{}}, to: dir, tag: filepath.Join(dir, "missing", "tag")}
	_, err := newServer(&Driver{}, p).begin(&http.Response{StatusCode: http.StatusOK, ContentLength: 1 << 60})
	if writ.CodeOf(err) != writ.CodeDriverRefused {
		t.Errorf("it ended with %v", err)
	}
}
