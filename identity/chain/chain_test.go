package chain

import "testing"

func TestPageStartIsNearItsCaller(t *testing.T) {
	c := Chain{newest: &element{Entry: Entry{Version: 5000}}, waypoints: []int{1, 30, 4096}}
	for _, test := range []struct{ after, start int }{
		{-1, 0}, {0, 0}, {1, 1}, {2, 1}, {20, 14}, {28, 28}, {29, 29}, {30, 30}, {3999, 3968}, {4095, 4095}, {4096, 4096},
		{4500, 4488}, {4998, 4998}, {4999, 4999}, {5000, 5000}, {5001, 5000},
	} {
		if start := c.PageStart(test.after); start != test.start {
			t.Errorf("after version %d: the page starts after %d, want %d", test.after, start, test.start)
		}
	}
}
