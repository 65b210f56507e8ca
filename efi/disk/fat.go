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

// Parameters of the FAT32 format.
const (
	reserved    = 32 // sectors before the first FAT
	tables      = 2
	leastFAT32  = 65525 + 16 // clusters; fewer than 65525 are FAT16, and some readers misjudge values just above
	backupAt    = 6
	entryLen    = 32
	endOfChain  = 0x0fffffff
	firstDay    = 0<<9 | 1<<5 | 1 // 1 January 1980
	attrDir     = 0x10
	attrFile    = 0x20
	attrVolume  = 0x08
	attrLong    = 0x0f
	lettersLong = 13 // UTF-16 units of a long name per entry
	volumeLabel = "WRIT       "
)

// node is a file or a directory.
type node struct {
	name  string
	short [11]byte
	long  bool // whether name needs long-name entries
	data  []byte
	dir   bool
	nodes []*node // of a directory, sorted by name

	cluster, clusters uint32
}

// tree builds the directory tree from the names of files.
func tree(files []File) (*node, error) {
	root := &node{dir: true}
	for _, f := range files {
		if !fs.ValidPath(f.Name) || f.Name == "." || strings.ContainsFunc(f.Name, notInName) {
			return nil, writ.Errorf(writ.CodeUsage, "invalid name %q for a file on a firmware disk", f.Name).
				WithHint("use letters, digits, dots, hyphens and underscores")
		}
		at := root
		names := strings.Split(f.Name, "/")
		for i, name := range names {
			n := at.find(name)
			switch last := i == len(names)-1; {
			case n != nil && (last || !n.dir):
				return nil, writ.Errorf(writ.CodeUsage, "%s is on the disk twice", f.Name).
					WithHint("firmware ignores the case of letters")
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

// arrange sorts the nodes below a directory and assigns short names.
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

// shortName returns the n-th candidate for the 8.3 name of a file. Candidate 0 is the name itself, if it is valid as a
// short name.
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

// size returns the size of a node on the disk in bytes.
func (n *node) size(root bool) int {
	if !n.dir {
		return len(n.data)
	}
	count := 2 // "." and ".."; in the root, the volume label and the end marker
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

// shape is the layout of a file system, in sectors.
type shape struct {
	perCluster, fat, clusters, sectors uint32
}

// shapeFor returns the layout for a tree and spare free bytes.
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
			return // an empty file has no clusters
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

// writeBoot writes the boot sector and the FSInfo sector, and their backups.
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
	le.PutUint32(boot[44:], 2) // first cluster of the root directory
	le.PutUint16(boot[48:], 1) // the FSInfo sector
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

// entries returns the directory entries of n.
func (n *node) entries(root *node) []byte {
	var out bytes.Buffer
	if n == root {
		out.Write(entry([11]byte([]byte(volumeLabel)), attrVolume, 0, 0))
	} else {
		out.Write(entry([11]byte([]byte(".          ")), attrDir, n.cluster, 0))
		above := uint32(0) // 0 stands for the root
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
	for _, at := range []int{16, 18, 24} { // created, accessed, modified
		le.PutUint16(e[at:], firstDay)
	}
	le.PutUint16(e[20:], uint16(cluster>>16))
	le.PutUint16(e[26:], uint16(cluster))
	le.PutUint32(e[28:], size)
	return e
}

// longEntry returns part i of a long name, counted from 1. The parts are stored in reverse order.
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
		letter := uint16(0xffff) // padding after the end
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
