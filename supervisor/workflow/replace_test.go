package workflow

import (
	"maps"
	"slices"
	"testing"

	"writ"
)

func TestCallIsReplacedOnlyWithItsNeeds(t *testing.T) {
	thing := func(kind writ.ResourceKind, name string) writ.ResourceID {
		return writ.ResourceID{Kind: kind, Name: name}
	}
	root, other, box := thing(writ.KindVolume, "root"), thing(writ.KindVolume, "other"), thing(writ.KindMachine, "box")
	made := func(seq int, r writ.ResourceID) stake { return stake{seq: seq, resource: r, there: true} }
	making := func(seq int, r writ.ResourceID, needs ...need) stake {
		return stake{seq: seq, resource: r, open: true, moves: true, there: true, needs: needs}
	}
	changing := func(seq int, r writ.ResourceID) stake { return stake{seq: seq, resource: r, open: true, there: true} }
	of := func(s stake) need { return need{s.seq, s.resource, "gone"} }
	elsewhere := stake{seq: 1, resource: root}
	for _, tt := range []struct {
		name   string
		stakes []stake
		want   map[int]writ.ResourceID
	}{
		{"a volume that may have begun", []stake{making(1, root)}, nil},
		{"a machine and its volume, both under way", []stake{making(1, root), making(2, box, of(making(1, root)))}, nil},
		{"a machine whose volume was made before", []stake{made(1, root), making(2, box, of(made(1, root)))}, map[int]writ.ResourceID{2: root}},
		{"a machine with a volume of another run", []stake{making(1, box, need{0, root, "gone"})}, map[int]writ.ResourceID{1: root}},
		{"its volume is on another node", []stake{elsewhere, making(2, box, need{1, root, "here"})}, nil},
		{"a volume of another run is on another node", []stake{making(1, box, need{0, root, "here"})}, nil},
		{"one of two volumes is lost", []stake{making(1, root), made(2, other), making(3, box, of(making(1, root)), of(made(2, other)))},
			map[int]writ.ResourceID{3: other}},
		{"an indirect need is lost for the same cause", []stake{made(1, other), making(2, root, of(made(1, other))), making(3, box, of(making(2, root)))},
			map[int]writ.ResourceID{2: other, 3: other}},
		{"its volume is only changed there", []stake{changing(1, root), making(2, box, of(changing(1, root)))}, map[int]writ.ResourceID{2: root}},
		{"it has ended", []stake{made(1, root), {seq: 2, resource: box, there: true, needs: []need{of(made(1, root))}}}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := make(map[int]writ.ResourceID)
			for seq, n := range withoutNeeds("gone", tt.stakes) {
				got[seq] = n.resource
			}
			if !maps.Equal(got, tt.want) && len(got)+len(tt.want) > 0 {
				t.Errorf("lost: %v, want %v", got, tt.want)
			}
			slices.Reverse(tt.stakes) // the result does not depend on the order
			if again := withoutNeeds("gone", tt.stakes); len(again) != len(tt.want) {
				t.Errorf("the other way round %v are lost", again)
			}
		})
	}
}
