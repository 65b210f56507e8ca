//go:build cgo

package btrfs

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"writ/internal/test/testenv"
	"writ/sal"
)

// BenchmarkCloneOfAnImage clones an image of 2 GiB, and for comparison copies it in full on the same disk.
func BenchmarkCloneOfAnImage(b *testing.B) {
	p := New(Config{Dir: filepath.Join(testenv.NewBtrfs(b, filepath.Join(b.TempDir(), "btrfs"), 7<<10).Dir, "pool")})
	images := must[string](b)(p.Make(b.Context(), "images", sal.Bound{}))
	image := filepath.Join(images, "image")
	random(b, image, 2<<30)
	dir := must[string](b)(p.Make(b.Context(), "a", sal.Bound{}))

	begun := time.Now()
	copyOf := filepath.Join(dir, "copy")
	if err := copyInPlace(copyOf, image); err != nil {
		b.Fatal(err)
	}
	full := time.Since(begun)
	if err := os.Remove(copyOf); err != nil {
		b.Fatal(err)
	}

	n := 0
	for b.Loop() {
		n++
		if err := p.Clone(b.Context(), image, filepath.Join(dir, fmt.Sprint("disk-", n)), 4<<30); err != nil {
			b.Fatal(err)
		}
	}
	clone := b.Elapsed() / time.Duration(n)
	b.ReportMetric(float64(clone.Microseconds())/1000, "clone-ms")
	b.ReportMetric(float64(full.Milliseconds()), "copy-ms")
	b.ReportMetric(float64(full)/float64(clone), "copy/clone")
}

// random writes and syncs a file of incompressible data, as an image driver would.
func random(b testing.TB, path string, size int64) {
	b.Helper()
	f := must[*os.File](b)(os.Create(path))
	defer f.Close()
	source := rand.NewChaCha8([32]byte{})
	block := make([]byte, 4<<20)
	for written := int64(0); written < size; written += int64(len(block)) {
		must[int](b)(source.Read(block))
		must[int](b)(f.Write(block))
	}
	if err := f.Sync(); err != nil {
		b.Fatal(err)
	}
}

func copyInPlace(to, from string) error {
	source, err := os.Open(from)
	if err != nil {
		return err
	}
	defer source.Close()
	f, err := os.Create(to)
	if err != nil {
		return err
	}
	_, err = io.Copy(struct{ io.Writer }{f}, struct{ io.Reader }{source}) // copy_file_range would share blocks
	return errors.Join(err, f.Sync(), f.Close())
}
