package volume

import (
	"os"

	"writ/sal"
)

const (
	// maxExtents limits the extents of one file in an archive. Readers of tar reject lists of more than 1 MiB.
	maxExtents = 1 << 14
	// minMergedHole is the initial limit for a file with too many extents: smaller holes are written as zeros. The limit
	// is doubled until the file has few enough extents.
	minMergedHole = 64 << 10
)

// extent is a range of a file that is not a hole.
type extent struct{ start, length int64 }

// extents collects the extents of a file in order. Small holes between them are dropped until at most maxExtents
// extents remain. Memory is bounded, and the result is the same as if all extents were known at once.
type extents struct {
	all  []extent
	hole int64 // smaller holes are dropped
}

func (x *extents) add(e extent) {
	x.all = append(x.all, e)
	if len(x.all) >= 4*maxExtents {
		x.merge()
	}
}

// merge drops holes, the smallest first, until at most maxExtents remain.
func (x *extents) merge() {
	x.dropHoles()
	for len(x.all) > maxExtents {
		x.hole = max(minMergedHole, 2*x.hole)
		x.dropHoles()
	}
}

func (x *extents) dropHoles() {
	if x.hole == 0 {
		return
	}
	kept := x.all[:1]
	for _, e := range x.all[1:] {
		if last := &kept[len(kept)-1]; e.start-(last.start+last.length) < x.hole {
			last.length = e.start + e.length - last.start
		} else {
			kept = append(kept, e)
		}
	}
	x.all = kept
}

// extentsOf returns the extents of a file. If the file ends with a hole, an empty extent at its end represents the hole
// for tar(1).
func extentsOf(f *os.File, size int64) []extent {
	var x extents
	for at := int64(0); at < size; {
		start, end := sal.Data(f, at, size)
		if start < end {
			x.add(extent{start, end - start})
		}
		at = max(end, at+1)
	}
	x.merge()
	all := x.all
	if n := len(all); n == 0 && size > 0 || n > 0 && all[n-1].start+all[n-1].length < size {
		all = append(all, extent{size, 0})
	}
	return all
}
