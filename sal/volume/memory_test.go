package volume

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"path"
	"runtime"
	"strings"
	"testing"
)

// directories streams an archive of n directories with the given PAX records each.
func directories(t testing.TB, n int, records map[string]string, name func(i int) string) io.Reader {
	from, to := io.Pipe()
	t.Cleanup(func() { _ = from.Close() })
	go func() {
		w := tar.NewWriter(to)
		var err error
		for i := 0; i < n && err == nil; i++ {
			h := &tar.Header{Typeflag: tar.TypeDir, Name: name(i) + "/", Mode: 0o700, Format: tar.FormatPAX, PAXRecords: records}
			err = w.WriteHeader(h)
		}
		_ = to.CloseWithError(errors.Join(err, w.Close()))
	}()
	return from
}

func siblings(i int) string { return fmt.Sprintf("directory-ü-%d", i) }

func nested(i int) string { return path.Join(strings.Split(strings.Repeat("ü", i+1), "")...) }

// liveHeap returns the bytes of reachable memory.
func liveHeap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func TestUnpackingForgetsHeaders(t *testing.T) {
	const entries, limit = 100, 16 << 20
	for shape, name := range map[string]func(int) string{"siblings": siblings, "nested": nested} {
		t.Run(shape, func(t *testing.T) {
			archive := directories(t, entries, map[string]string{"WRIT.test": strings.Repeat("x", 900<<10)}, name)
			before, most, steps := liveHeap(), int64(0), 0
			u := &unpacking{fits: func(int64) error { return nil }, step: func(string) {
				if steps++; steps%20 == 0 {
					most = max(most, liveHeap()-before)
				}
			}}
			if err := u.unpack(t.Context(), t.TempDir(), archive); err != nil {
				t.Fatal(err)
			}
			if steps < entries || most > limit {
				t.Errorf("after %d steps it held %d KiB, want at most %d", steps, most>>10, limit>>10)
			}
		})
	}
}

// Promise: Volumes and images: Packing, unpacking and copying a volume use bounded memory for any content.
// How: Directories are completed in archive order; at most 256 MiB of names, 16 MiB of access lists and 960 KiB of
// attributes per file are in memory.
// Also: TestUnpackingForgetsHeaders, TestPackingBoundsAttributes, TestSmallHolesAreWrittenAsZeros,
// TestWalkBoundsItsMemory.
func TestUnpackingBoundsHeldAccessLists(t *testing.T) {
	list := map[string]string{attributePrefix + "system.posix_acl_default": strings.Repeat("x", 64<<10)}
	u := &unpacking{fits: func(int64) error { return nil }, step: func(string) {}}
	err := u.unpack(t.Context(), t.TempDir(), directories(t, 300, list, nested))
	if err == nil || !strings.Contains(err.Error(), "access lists") {
		t.Errorf("300 nested directories with 64 KiB each: %v", err)
	}
}

func TestArchiveOutOfOrderIsRefused(t *testing.T) {
	names := []string{"a", "b", "a/c"}
	u := &unpacking{fits: func(int64) error { return nil }, step: func(string) {}}
	err := u.unpack(t.Context(), t.TempDir(), directories(t, len(names), nil, func(i int) string { return names[i] }))
	if err == nil || !strings.Contains(err.Error(), `"a/c" does not follow its directory`) {
		t.Error(err)
	}
}
