package disk

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"writ"
)

// The form of a FAT32 file system.
const (
	reserved    = 32 // sectors before the first table
	tables      = 2
	leastFAT32  = 65525 + 16 // clusters; with fewer it would be taken for FAT16, by some also with a few more
	backupAt    = 6
	entryLen    = 32
	endOfChain  = 0x0fffffff
	firstDay    = 0<<9 | 1<<5 | 1 // the first of January 1980
	attrDir     = 0x10
	attrFile    = 0x20
	attrVolume  = 0x08
	attrLong    = 0x0f
	lettersLong = 13 // of a long name in one entry
	volumeLabel = "WRIT       "
)

// node is a file or a directory.
type node struct {
	name  string
	short [11]byte
	long  bool // the short name is not the name
	data  []byte
	dir   bool
	nodes []*node // of a directory, by name

	cluster, clusters uint32
}

// tree makes directories of the names of files.
func tree(files []File) (*node, error) {
	root := &node{dir: true}
	for _, f := range files {
		if !fs.ValidPath(f.Name) || f.Name == "." || strings.ContainsFunc(f.Name, notInName) {
			return nil, writ.Errorf(writ.CodeUsage, "a disk for firmware has no file %q", f.Name).WithHint("use letters, digits, dots, hyphens and underscores")
		}
		at := root
		names := strings.Split(f.Name, "/")
		for i, name := range names {
			n := at.find(name)
			switch last := i == len(names)-1; {
			case n != nil && (last || !n.dir):
				return nil, writ.Errorf(writ.CodeUsage, "%s is on the disk twice", f.Name).WithHint("firmware does not tell capital letters from small ones")
			case n == nil:
				n = &node{name: name, dir: !last}
				if last {
					n.data = f.Data
				}
				at.nodes = append(at.nodes, n)
			}
			at = n
		}
	}
	return root, root.arrange()
}

func notInName(r rune) bool {
	return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("/.-_", r))
}

func (n *node) find(name string) *node {
	i := slices.IndexFunc(n.nodes, func(other *node) bool { return strings.EqualFold(other.name, name) })
	if i < 0 {
		return nil
	}
	return n.nodes[i]
}

// arrange sorts what is below a directory, and gives each file its short name.
func (n *node) arrange() error {
	slices.SortFunc(n.nodes, func(a, b *node) int { return strings.Compare(a.name, b.name) })
	taken := map[[11]byte]bool{}
	for _, one := range n.nodes {
		if len(one.name) > 255 {
			return writ.Errorf(writ.CodeUsage, "the name %.20s… is too long for a disk", one.name)
		}
		for number := 0; ; number++ {
			one.short, one.long = shortName(one.name, number)
			if !taken[one.short] {
				taken[one.short] = true
				break
			}
		}
		if err := one.arrange(); err != nil {
			return err
		}
	}
	return nil
}

// shortName is the n-th name of eight letters and three for a file; the first one is the name itself if that is possible.
func shortName(name string, n int) (short [11]byte, long bool) {
	upper := strings.ToUpper(name)
	stem, ending := upper, ""
	if dot := strings.LastIndexByte(upper, '.'); dot > 0 {
		stem, ending = upper[:dot], upper[dot+1:]
	}
	copy(short[:], bytes.Repeat([]byte{' '}, 11))
	if n == 0 && upper == name && len(stem) <= 8 && len(ending) <= 3 && !strings.Contains(stem, ".") {
		copy(short[:8], stem)
		copy(short[8:], ending)
		return short, false
	}
	tail := fmt.Sprintf("~%d", max(n, 1))
	stem = strings.ReplaceAll(stem, ".", "")
	copy(short[:8], stem[:min(len(stem), 8-len(tail))]+tail)
	copy(short[8:], ending[:min(len(ending), 3)])
	return short, true
}

// size is how many bytes a node has on the disk.
func (n *node) size(root bool) int {
	if !n.dir {
		return len(n.data)
	}
	count := 2 // the directory itself and the one above; in the root, the label and the end
	if !root {
		count++
	}
	for _, one := range n.nodes {
		count += 1 + one.longEntries()
	}
	return count * entryLen
}

func (n *node) longEntries() int {
	if !n.long {
		return 0
	}
	return (len(n.name) + lettersLong - 1) / lettersLong
}

// shape is where the parts of a file system are, in sectors.
type shape struct {
	perCluster, fat, clusters, sectors uint32
}

// shapeFor makes room for a tree and some more.
func shapeFor(root *node, spare int64) shape {
	var s shape
	for s.perCluster = 1; ; s.perCluster *= 2 {
		cluster := int64(s.perCluster) * sector
		need := (spare + cluster - 1) / cluster
		root.walk(func(n *node) { need += (int64(n.size(n == root)) + cluster - 1) / cluster })
		if need < 1<<17 || s.perCluster == 64 {
			s.clusters = uint32(max(need, leastFAT32))
			break
		}
	}
	s.fat = ((s.clusters+2)*4 + sector - 1) / sector
	s.sectors = reserved + tables*s.fat + s.clusters*s.perCluster
	return s
}

func (n *node) walk(visit func(*node)) {
	visit(n)
	for _, one := range n.nodes {
		one.walk(visit)
	}
}

// write writes the file system.
func (s shape) write(out []byte, root *node, id uint32) {
	le := binary.LittleEndian
	next, cluster := uint32(2), int(s.perCluster)*sector
	table := make([]byte, s.fat*sector)
	le.PutUint32(table, 0x0ffffff8)
	le.PutUint32(table[4:], endOfChain)
	root.walk(func(n *node) {
		n.clusters = uint32((n.size(n == root) + cluster - 1) / cluster)
		if n.clusters == 0 {
			return // an empty file has none
		}
		n.cluster = next
		for i := range n.clusters {
			link := next + i + 1
			if i == n.clusters-1 {
				link = endOfChain
			}
			le.PutUint32(table[4*(next+i):], link)
		}
		next += n.clusters
	})
	for i := range uint32(tables) {
		copy(out[(reserved+i*s.fat)*sector:], table)
	}
	data := out[(reserved+tables*s.fat)*sector:]
	root.walk(func(n *node) {
		if n.clusters == 0 {
			return
		}
		content := n.data
		if n.dir {
			content = n.entries(root)
		}
		copy(data[int(n.cluster-2)*cluster:], content)
	})
	root.walk(func(n *node) { n.cluster, n.clusters = 0, 0 })
	s.writeBoot(out, id, next)
}

// writeBoot writes the sectors that describe the file system, and their copies.
func (s shape) writeBoot(out []byte, id, next uint32) {
	le := binary.LittleEndian
	boot := make([]byte, sector)
	copy(boot, "\xeb\x58\x90writ    ")
	le.PutUint16(boot[11:], sector)
	boot[13] = byte(s.perCluster)
	le.PutUint16(boot[14:], reserved)
	boot[16] = tables
	boot[21] = 0xf8
	le.PutUint16(boot[24:], 63)
	le.PutUint16(boot[26:], 255)
	le.PutUint32(boot[28:], first)
	le.PutUint32(boot[32:], s.sectors)
	le.PutUint32(boot[36:], s.fat)
	le.PutUint32(boot[44:], 2) // the root
	le.PutUint16(boot[48:], 1) // the sector with what is free
	le.PutUint16(boot[50:], backupAt)
	boot[64], boot[66] = 0x80, 0x29
	le.PutUint32(boot[67:], id)
	copy(boot[71:], volumeLabel)
	copy(boot[82:], "FAT32   ")
	copy(boot[510:], []byte{0x55, 0xaa})

	free := make([]byte, sector)
	copy(free, "RRaA")
	copy(free[484:], "rrAa")
	le.PutUint32(free[488:], s.clusters+2-next)
	le.PutUint32(free[492:], next)
	copy(free[510:], []byte{0x55, 0xaa})
	for _, at := range []int{0, backupAt} {
		copy(out[at*sector:], boot)
		copy(out[(at+1)*sector:], free)
	}
}

// entries are those of a directory.
func (n *node) entries(root *node) []byte {
	var out bytes.Buffer
	if n == root {
		out.Write(entry([11]byte([]byte(volumeLabel)), attrVolume, 0, 0))
	} else {
		out.Write(entry([11]byte([]byte(".          ")), attrDir, n.cluster, 0))
		above := uint32(0) // which stands for the root
		root.walk(func(p *node) {
			if p != root && slices.Contains(p.nodes, n) {
				above = p.cluster
			}
		})
		out.Write(entry([11]byte([]byte("..         ")), attrDir, above, 0))
	}
	for _, one := range n.nodes {
		for i := one.longEntries(); i > 0; i-- {
			out.Write(one.longEntry(i))
		}
		if one.dir {
			out.Write(entry(one.short, attrDir, one.cluster, 0))
		} else {
			out.Write(entry(one.short, attrFile, one.cluster, uint32(len(one.data))))
		}
	}
	return out.Bytes()
}

func entry(short [11]byte, attributes byte, cluster, size uint32) []byte {
	le := binary.LittleEndian
	e := make([]byte, entryLen)
	copy(e, short[:])
	e[11] = attributes
	for _, at := range []int{16, 18, 24} { // made, read, changed
		le.PutUint16(e[at:], firstDay)
	}
	le.PutUint16(e[20:], uint16(cluster>>16))
	le.PutUint16(e[26:], uint16(cluster))
	le.PutUint32(e[28:], size)
	return e
}

// longEntry is the i-th part of a long name, from 1. The last part comes first on the disk.
func (n *node) longEntry(i int) []byte {
	e := make([]byte, entryLen)
	e[0], e[11] = byte(i), attrLong
	if i == n.longEntries() {
		e[0] |= 0x40
	}
	for _, b := range n.short {
		e[13] = e[13]>>1 | e[13]<<7
		e[13] += b
	}
	part := n.name[(i-1)*lettersLong:]
	for j := range lettersLong {
		letter := uint16(0xffff) // behind the end
		if j < len(part) {
			letter = uint16(part[j])
		} else if j == len(part) {
			letter = 0
		}
		at := 1 + 2*j
		switch {
		case j >= 11:
			at = 28 + 2*(j-11)
		case j >= 5:
			at = 14 + 2*(j-5)
		}
		binary.LittleEndian.PutUint16(e[at:], letter)
	}
	return e
}
