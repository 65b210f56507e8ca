package supervisor

import (
	"slices"
	"testing"

	"writ"
)

func TestShownDiskChangesByHundredths(t *testing.T) {
	t.Parallel()
	const size = 10_000
	for _, tt := range []struct {
		name              string
		shown, free, want int64
	}{
		{"a hundredth less", 6000, 5900, 5900},
		{"less than that", 6000, 5901, 6000},
		{"a little more", 6000, 6099, 6000},
		{"a hundredth more", 6000, 6100, 6100},
		{"almost full", 500, 499, 499},
		{"almost full no more", 499, 500, 500},
		{"still almost full", 499, 450, 499},
	} {
		got := steadyDisks([]writ.Disk{{Path: "/a", Bytes: size, Free: tt.shown}}, []writ.Disk{{Path: "/a", Bytes: size, Free: tt.free}})
		if len(got) != 1 || got[0].Free != tt.want {
			t.Errorf("%s: %+v, want %d free", tt.name, got, tt.want)
		}
	}
	grown := []writ.Disk{{Path: "/a", Bytes: size + 1, Free: 6001}, {Path: "/b", Bytes: size, Free: 1}}
	if got := steadyDisks([]writ.Disk{{Path: "/a", Bytes: size, Free: 6000}}, grown); !slices.Equal(got, grown) {
		t.Errorf("a disk that grew and a new one: %+v, want %+v", got, grown)
	}
}
