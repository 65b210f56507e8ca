package deb

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/ulikunitz/xz"
)

// pack builds a package with a compression. A name "a -> b" is a symbolic link, and "a = b" a hard link.
func pack(t testing.TB, compression string, names ...string) []byte {
	t.Helper()
	var files []*tar.Header
	for _, name := range names {
		header := &tar.Header{Name: name, Mode: 0o644, Size: int64(len(name)), Typeflag: tar.TypeReg}
		if link, target, ok := strings.Cut(name, " -> "); ok {
			header.Name, header.Linkname, header.Size, header.Typeflag = link, target, 0, tar.TypeSymlink
		}
		if other, file, ok := strings.Cut(name, " = "); ok {
			header.Name, header.Linkname, header.Size, header.Typeflag = other, file, 0, tar.TypeLink
		}
		if strings.HasSuffix(name, "/") {
			header.Size, header.Typeflag = 0, tar.TypeDir
		}
		files = append(files, header)
	}
	data := tarOf(t, compression, func(h *tar.Header) string { return h.Name }, files...)
	const control = "Package: linux-image-x\nVersion: 6.1.2-3\nArchitecture: amd64\nDescription: a kernel\n Version: of a long text\n"
	about := tarOf(t, ".xz", func(*tar.Header) string { return control }, &tar.Header{Name: "./control", Mode: 0o644, Size: int64(len(control)), Typeflag: tar.TypeReg})
	p := bytes.NewBufferString(magic)
	for _, member := range []struct {
		name string
		data []byte
	}{{"debian-binary", []byte("2.0\n")}, {"control.tar.xz", about}, {"odd", []byte("odd")}, {dataName + compression, data}} {
		fmt.Fprintf(p, "%-16s%-12d%-6d%-6d%-8s%-10d%s", member.name, 0, 0, 0, "100644", len(member.data), headerEnd)
		p.Write(member.data)
		if len(member.data)%2 == 1 {
			p.WriteByte('\n')
		}
	}
	return p.Bytes()
}

func tarOf(t testing.TB, compression string, content func(*tar.Header) string, headers ...*tar.Header) []byte {
	t.Helper()
	var data bytes.Buffer
	compressed, err := map[string]func() (io.WriteCloser, error){
		".gz":  func() (io.WriteCloser, error) { return gzip.NewWriter(&data), nil },
		".xz":  func() (io.WriteCloser, error) { return xz.NewWriter(&data) },
		".zst": func() (io.WriteCloser, error) { return zstd.NewWriter(&data) },
	}[compression]()
	if err != nil {
		t.Fatal(err)
	}
	files := tar.NewWriter(compressed)
	for _, header := range headers {
		if err := files.WriteHeader(header); err != nil {
			t.Fatal(err)
		}
		if header.Size > 0 {
			if _, err := io.WriteString(files, content(header)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := errors.Join(files.Close(), compressed.Close()); err != nil {
		t.Fatal(err)
	}
	return data.Bytes()
}

func TestWantedFilesAreUnpackedHoweverTheyAreCompressed(t *testing.T) {
	for _, compression := range []string{".gz", ".xz", ".zst"} {
		dir := t.TempDir()
		root, err := os.OpenRoot(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer root.Close()
		p := pack(t, compression, "./", "./boot/", "./boot/vmlinuz-6.1", "./boot/config", "./lib/modules/6.1/a.ko", "./lib/firmware/a.bin -> ../modules/6.1/a.ko",
			"./lib/firmware/out.bin -> /etc/passwd", "./lib/firmware/b.bin = ./lib/modules/6.1/a.ko")
		got, err := Unpack(bytes.NewReader(p), root, func(name string) bool { return name != "boot/config" })
		if err != nil {
			t.Fatal(err)
		}
		want := &Package{"linux-image-x", "6.1.2-3", "amd64", []string{"boot/vmlinuz-6.1", "lib/modules/6.1/a.ko", "lib/firmware/a.bin", "lib/firmware/out.bin", "lib/firmware/b.bin"}}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", compression, diff)
		}
		for _, link := range []string{"a.bin", "b.bin"} {
			if text, err := fs.ReadFile(root.FS(), "lib/firmware/"+link); err != nil || string(text) != "./lib/modules/6.1/a.ko" {
				t.Errorf("%s: the link %s leads to %q, %v", compression, link, text, err)
			}
		}
		if text, err := fs.ReadFile(root.FS(), "lib/firmware/out.bin"); err == nil {
			t.Errorf("%s: a link leads out of the directory to %.20q", compression, text)
		}
		for name, there := range map[string]bool{"boot/vmlinuz-6.1": true, "lib/modules/6.1/a.ko": true, "boot/config": false} {
			text, err := os.ReadFile(filepath.Join(dir, name))
			if (err == nil) != there || there && string(text) != "./"+name {
				t.Errorf("%s: %s has %q, %v", compression, name, text, err)
			}
		}
		for _, cut := range []int{0, 7, 20, 70, len(p) / 2, len(p) - 40} {
			if _, err := Unpack(bytes.NewReader(p[:cut]), root, func(string) bool { return false }); err == nil {
				t.Errorf("%s: a package is read that ends after %d of %d bytes", compression, cut, len(p))
			}
		}
	}
}

// FuzzUnpack searches for packages that crash the program.
func FuzzUnpack(f *testing.F) {
	for _, compression := range []string{".gz", ".xz", ".zst"} {
		f.Add(pack(f, compression, "./boot/vmlinuz-6.1"))
	}
	f.Fuzz(func(t *testing.T, p []byte) {
		root, err := os.OpenRoot(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		defer root.Close()
		_, _ = Unpack(bytes.NewReader(p), root, func(string) bool { return true })
	})
}

func TestNoFileIsWrittenElsewhere(t *testing.T) {
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	if _, err := Unpack(bytes.NewReader(pack(t, ".gz", "../outside")), root, func(string) bool { return true }); err == nil {
		t.Error("a name that leads out of the directory is written")
	}
	if _, err := os.Stat(filepath.Join(filepath.Dir(dir), "outside")); err == nil {
		t.Error("the file exists")
	}
	twice := pack(t, ".gz", "./a", "./a")
	if _, err := Unpack(bytes.NewReader(twice), root, func(string) bool { return true }); err == nil {
		t.Error("a file is written twice")
	}
	if _, err := Unpack(strings.NewReader("<html>"), root, func(string) bool { return true }); err == nil || !strings.Contains(err.Error(), "not a Debian package") {
		t.Errorf("a page is unpacked: %v", err)
	}
}

// A small, highly compressed package could fill any disk.
func TestAPackageOfVeryManyBytesIsRefused(t *testing.T) {
	const size = 1 << 20
	tar := tarOf(t, ".gz", func(*tar.Header) string { return strings.Repeat("x", size) }, &tar.Header{Name: "zeros", Mode: 0o644, Size: size, Typeflag: tar.TypeReg})
	for left, wantErr := range map[int64]bool{2 * size: false, size: true} {
		unpacked, err := gzip.NewReader(bytes.NewReader(tar))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, &bounded{unpacked, left}); (err != nil) != wantErr {
			t.Errorf("%d bytes of at most %d: %v", size, left, err)
		}
	}
}
