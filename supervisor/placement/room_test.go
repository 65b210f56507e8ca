package placement

import "testing"

func TestSpareCapacityGoesToProjectsWithTheLeast(t *testing.T) {
	for _, tt := range []struct{ slots, sent, own, want int }{
		{64, 128, 128, 0}, // has two for each slot
		{64, 128, 0, 33},  // three quarters of what is left
		{64, 161, 0, 8},
		{64, 170, 0, 1},
		{64, 171, 0, 0},
		{1, 2, 2, 0},
		{1, 2, 0, 1},
		{1, 3, 0, 0},
	} {
		if got := Spare(tt.slots, tt.sent, tt.own); got != tt.want {
			t.Errorf("Spare(%d slots, %d sent, %d of them its own) = %d, want %d", tt.slots, tt.sent, tt.own, got, tt.want)
		}
	}
}
