package hardware

import (
	"runtime"
	"testing"

	"writ"
)

func TestAHostKeepsSomeForItself(t *testing.T) {
	for _, tt := range []struct{ has, least, offers int64 }{
		{64 << 10, ownMemoryMiB, 64<<10 - 64<<10/20},
		{4 << 10, ownMemoryMiB, 3584},
		{512, ownMemoryMiB, 256},
		{1000, 0, 950},
		{1, 0, 1},
		{0, 0, 0},
	} {
		if got := spared(tt.has, tt.least); got != tt.offers {
			t.Errorf("a host with %d offers %d, want %d", tt.has, got, tt.offers)
		}
	}
	if runtime.GOOS != "linux" {
		return
	}
	memoryMiB, diskGiB, err := measure(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	got, err := Capacity(t.TempDir(), writ.Capacity{DiskGiB: 7})
	if err != nil || got.CPUs != int64(runtime.NumCPU()) || got.MemoryMiB >= memoryMiB || got.DiskGiB != 7 {
		t.Errorf("of %d MiB and %d GiB it offers %+v, %v", memoryMiB, diskGiB, got, err)
	}
	more := int64(2 * runtime.NumCPU())
	if got, err := Capacity(t.TempDir(), writ.Capacity{CPUs: more}); err != nil || got.CPUs != more {
		t.Errorf("with --cpus %d it offers %+v, %v", more, got, err)
	}
}
