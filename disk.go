package writ

import "fmt"

// Disk is a file system on which a node stores data of writ.
type Disk struct {
	Path  string `json:"path"`  // a directory of the node on this file system
	Bytes int64  `json:"bytes"` // without the blocks that the file system reserves for root, as df counts
	Free  int64  `json:"free"`
}

// almostFullPart sets the reserve of a disk. A disk is almost full if less than 1/almostFullPart of it is free. Nodes
// offer the space beyond the reserve to resources. If less is free, other data uses the disk or resources exceed their
// reservations, and the next write may fail.
const almostFullPart = 20

// AlmostFull reports whether less than a twentieth of the disk is free.
func (d Disk) AlmostFull() bool { return d.Bytes > 0 && d.Free < d.Bytes/almostFullPart }

// String formats a disk for people: "/srv/writ has 1.2 of 40.0 GiB free".
func (d Disk) String() string {
	const gib = 1 << 30
	return fmt.Sprintf("%s has %.1f of %.1f GiB free", d.Path, float64(d.Free)/gib, float64(d.Bytes)/gib)
}

// AlmostFullDisk returns the disk of the node with the smallest free part, if it is almost full, otherwise nil.
func (n *Node) AlmostFullDisk() *Disk {
	var worst *Disk
	for i := range n.Disks {
		d := &n.Disks[i]
		if d.AlmostFull() && (worst == nil || float64(d.Free)/float64(d.Bytes) < float64(worst.Free)/float64(worst.Bytes)) {
			worst = d
		}
	}
	return worst
}
