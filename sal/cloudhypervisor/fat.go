package cloudhypervisor

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"
	"unicode/utf16"
)

// The cloud-init disk is a FAT16 file system, the smallest format that every guest can mount: boot sector, two
// allocation tables, root directory, clusters. The numbers follow Microsoft's specification (FAT: General Overview of
// On-Disk Format, 1.03).
const (
	sectorBytes  = 512
	clusterBytes = 2 * sectorBytes // gives more than 4085 clusters, the minimum for FAT16
	seedSize     = 8 << 20
	sectors      = seedSize / sectorBytes
	tableSectors = 32 // each sector maps 256 clusters
	rootEntries  = 512
	rootSectors  = rootEntries * entryBytes / sectorBytes
	entryBytes   = 32
	firstData    = 1 + 2*tableSectors + rootSectors // sector of cluster 2
	clusters     = (sectors - firstData) / (clusterBytes / sectorBytes)
)

// Attributes of directory entries.
const (
	attrReadOnly = 0x01
	attrVolume   = 0x08
	attrLong     = 0x0f
)

// fatDate is 1980-01-01, the earliest date in FAT. A fixed date makes images of the same files identical.
const fatDate = 1<<5 | 1

// file is a file of the image.
type file struct {
	name string
	data []byte
}

// fatImage returns the beginning of a disk of seedSize bytes with files in its root directory. The rest of the disk is
// zero.
func fatImage(label string, files []file) ([]byte, error) {
	table := make([]byte, tableSectors*sectorBytes)
	setCluster := func(i int, to uint16) { binary.LittleEndian.PutUint16(table[2*i:], to) }
	setCluster(0, 0xfff8) // medium type
	setCluster(1, 0xffff)
	var root, data bytes.Buffer
	root.Write(entry(padded(label, 11), attrVolume, 0, 0))
	next := 2
	for i, f := range files {
		n := (len(f.data) + clusterBytes - 1) / clusterBytes
		if next+n > 2+clusters {
			return nil, fmt.Errorf("%s has %d bytes; %d are available", f.name, len(f.data),
				(2+clusters-next)*clusterBytes)
		}
		first := 0
		if n > 0 {
			first = next
		}
		for c := next; c < next+n; c++ {
			to := uint16(c + 1)
			if c == next+n-1 {
				to = 0xffff
			}
			setCluster(c, to)
		}
		next += n
		short := padded(fmt.Sprintf("FILE%d", i), 8) + padded("", 3)
		root.Write(longName(f.name, short))
		root.Write(entry(short, attrReadOnly, first, len(f.data)))
		data.Write(f.data)
		data.Write(make([]byte, n*clusterBytes-len(f.data)))
	}
	if root.Len() > rootSectors*sectorBytes {
		return nil, fmt.Errorf("%d files are too many", len(files))
	}
	root.Write(make([]byte, rootSectors*sectorBytes-root.Len()))
	return bytes.Join([][]byte{bootSector(label), table, table, root.Bytes(), data.Bytes()}, nil), nil
}

// bootSector returns the sector with the layout of the disk.
func bootSector(label string) []byte {
	b := make([]byte, sectorBytes)
	copy(b, "\xeb\x3c\x90WRIT    ")
	le := binary.LittleEndian
	le.PutUint16(b[11:], sectorBytes)
	b[13] = clusterBytes / sectorBytes
	le.PutUint16(b[14:], 1) // sectors before the first table
	b[16] = 2               // tables
	le.PutUint16(b[17:], rootEntries)
	le.PutUint16(b[19:], sectors)
	b[21] = 0xf8 // fixed disk
	le.PutUint16(b[22:], tableSectors)
	le.PutUint16(b[24:], 32) // sectors per track and heads, both obsolete
	le.PutUint16(b[26:], 2)
	b[36] = 0x80 // first disk
	b[38] = 0x29 // the following fields are present
	copy(b[39:], "WRIT")
	copy(b[43:], padded(label, 11))
	copy(b[54:], "FAT16   ")
	b[510], b[511] = 0x55, 0xaa
	return b
}

func padded(s string, n int) string { return s + strings.Repeat(" ", n-len(s)) }

// entry returns a directory entry with a short name of 8 and 3 letters.
func entry(short string, attributes byte, first, size int) []byte {
	e := make([]byte, entryBytes)
	copy(e, short)
	e[11] = attributes
	le := binary.LittleEndian
	le.PutUint16(e[16:], fatDate) // created
	le.PutUint16(e[18:], fatDate) // accessed
	le.PutUint16(e[24:], fatDate) // written
	le.PutUint16(e[26:], uint16(first))
	le.PutUint32(e[28:], uint32(size))
	return e
}

// longName returns the entries that hold the long name, last part first. They precede the entry of the file.
func longName(name, short string) []byte {
	const perEntry = 13
	units := utf16.Encode([]rune(name))
	if len(units)%perEntry != 0 {
		units = append(units, 0)
	}
	for len(units)%perEntry != 0 {
		units = append(units, 0xffff)
	}
	sum := byte(0)
	for i := range len(short) {
		sum = sum>>1 | sum<<7
		sum += short[i]
	}
	var all []byte
	parts := len(units) / perEntry
	for part := parts; part > 0; part-- {
		e := make([]byte, entryBytes)
		e[0] = byte(part)
		if part == parts {
			e[0] |= 0x40
		}
		e[11], e[13] = attrLong, sum
		for i, unit := range units[(part-1)*perEntry : part*perEntry] {
			binary.LittleEndian.PutUint16(e[unitAt(i):], unit)
		}
		all = append(all, e...)
	}
	return all
}

// unitAt returns the offset of the i-th UTF-16 unit of a name in its entry. The offsets skip the fields of short-name
// entries.
func unitAt(i int) int {
	switch {
	case i < 5:
		return 1 + 2*i
	case i < 11:
		return 14 + 2*(i-5)
	default:
		return 28 + 2*(i-11)
	}
}
