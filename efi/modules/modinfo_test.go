package modules

import (
	"bytes"
	"io"
	"os"
	"reflect"
	"testing"
	"testing/fstest"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/ulikunitz/xz"

	"writ/internal/test/testenv"
)

// Newer kernels of Debian have compressed modules. Their index entries are the same as for uncompressed ones, and their
// content is unpacked.
func TestCompressedModulesAreTheSame(t *testing.T) {
	const name = "kernel/drivers/net/virtio_net.ko"
	plain, err := os.ReadFile(testenv.Kernel(t).Modules + "/" + name)
	if err != nil {
		t.Fatal(err)
	}
	var want *Module
	for _, compression := range []string{"", ".gz", ".xz", ".zst"} {
		var packed bytes.Buffer
		var w io.WriteCloser
		switch compression {
		case "":
			packed.Write(plain)
		case ".gz":
			w = gzip.NewWriter(&packed)
		case ".xz":
			w, err = xz.NewWriter(&packed)
		case ".zst":
			w, err = zstd.NewWriter(&packed)
		}
		if err != nil {
			t.Fatal(err)
		}
		if w != nil {
			if _, err := w.Write(plain); err != nil {
				t.Fatal(err)
			}
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
		}
		x, err := Scan(fstest.MapFS{"modules.builtin": {}, name + compression: {Data: packed.Bytes()}})
		if err != nil {
			t.Fatal(err)
		}
		found, _ := x.Find("virtio_net")
		if len(found) != 1 {
			t.Fatalf("%s: %d modules of the name are found", compression, len(found))
		}
		if object, err := x.Object(found[0]); err != nil || !bytes.Equal(object, plain) {
			t.Errorf("%s: the content has %d bytes, %v, want %d", compression, len(object), err, len(plain))
		}
		found[0].source = ""
		if want == nil {
			want = found[0]
		}
		if !reflect.DeepEqual(found[0], want) || want.Path != name || len(want.Aliases) == 0 || len(want.Depends) == 0 {
			t.Errorf("%s: the module is %+v, want %+v", compression, found[0], want)
		}
	}
	if _, err := Scan(fstest.MapFS{"modules.builtin": {}, name + ".xz": {Data: plain}}); err == nil {
		t.Error("a module with a wrong compression suffix was read")
	}
}
