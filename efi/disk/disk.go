// Package disk builds disk images that UEFI firmware can boot: a GPT with one FAT32 partition, which holds the given
// files. The same image works as a CD. The output is reproducible: all times are 1 January 1980, the earliest date of
// FAT, and ids derive from the content. The package does not depend on the purpose of the files.
package disk

import (
	"crypto/sha256"
	"encoding/binary"
	"hash/crc32"

	"writ"
)

// Sizes in bytes and positions in sectors.
const (
	sector     = 512
	alignment  = 1 << 20 // of the partition; also suits disks with larger sectors
	first      = alignment / sector
	entries    = 128 // of the partition table
	entrySize  = 128
	tableSize  = entries * entrySize / sector
	headerSize = 92
)

// systemPartition is the type GUID of the EFI system partition, in GPT byte order.
var systemPartition = [16]byte{
	0x28, 0x73, 0x2a, 0xc1, 0x1f, 0xf8, 0xd2, 0x11, 0xba, 0x4b, 0x00, 0xa0, 0xc9, 0x3e, 0xc9, 0x3b,
}

// File is a file on the disk. Name uses slashes as separators.
type File struct {
	Name string
	Data []byte
}

// most limits the size of the partition in bytes. FAT32 allows more, but firmware reads several GiB slowly.
const most = 2 << 30

// Build returns the image of a disk that contains the files and has at least spare free bytes. It returns USAGE for an
// invalid or duplicate name, and TOO_LARGE for a partition above 2 GiB.
func Build(files []File, spare int64) ([]byte, error) {
	if spare < 0 {
		return nil, writ.Errorf(writ.CodeUsage, "the free space of a disk cannot be %d bytes", spare)
	}
	root, err := tree(files)
	if err != nil {
		return nil, err
	}
	sum := sha256.New()
	for _, f := range files {
		part := sha256.Sum256(f.Data)
		sum.Write(append(part[:], f.Name...))
	}
	id := sum.Sum(nil)
	shape := shapeFor(root, min(spare, most+1)) // a larger value could overflow, and is above the limit anyway
	partition := int64(shape.sectors) * sector
	if partition > most {
		return nil, writ.Errorf(writ.CodeTooLarge, "the disk would have %d MiB, and the limit is %d", partition>>20,
			most>>20)
	}
	size := (alignment + partition + (1+tableSize)*sector + alignment - 1) / alignment * alignment
	out := make([]byte, size)
	shape.write(out[alignment:alignment+partition], root, binary.LittleEndian.Uint32(id))
	writeTable(out, first+int(shape.sectors)-1, id)
	writeISO(out)
	return out, nil
}

// uuid derives a version-8 (custom) UUID from a digest.
func uuid(b []byte) (id [16]byte) {
	copy(id[:], b)
	id[7] = id[7]&0x0f | 0x80 // the version, in GPT byte order
	id[8] = id[8]&0x3f | 0x80
	return id
}

// writeTable writes the partition table at both ends of the disk. end is the last sector of the partition.
func writeTable(out []byte, end int, digest []byte) {
	le := binary.LittleEndian
	last := len(out)/sector - 1
	// Protective MBR: programs without GPT support treat the disk as full.
	out[446+4] = 0xee
	copy(out[446+1:], []byte{0, 2, 0})
	copy(out[446+5:], []byte{0xff, 0xff, 0xff})
	le.PutUint32(out[446+8:], 1)
	le.PutUint32(out[446+12:], uint32(last))
	copy(out[510:], []byte{0x55, 0xaa})

	table := make([]byte, entries*entrySize)
	diskID, partitionID := uuid(digest[:16]), uuid(digest[16:])
	copy(table, systemPartition[:])
	copy(table[16:], partitionID[:])
	le.PutUint64(table[32:], first)
	le.PutUint64(table[40:], uint64(end))
	for i, letter := range "EFI system partition" {
		le.PutUint16(table[56+2*i:], uint16(letter))
	}
	header := func(at, other, tableAt int) {
		h := make([]byte, headerSize)
		copy(h, "EFI PART\x00\x00\x01\x00")
		le.PutUint32(h[12:], headerSize)
		le.PutUint64(h[24:], uint64(at))
		le.PutUint64(h[32:], uint64(other))
		le.PutUint64(h[40:], 2+tableSize)
		le.PutUint64(h[48:], uint64(last-1-tableSize))
		copy(h[56:], diskID[:])
		le.PutUint64(h[72:], uint64(tableAt))
		le.PutUint32(h[80:], entries)
		le.PutUint32(h[84:], entrySize)
		le.PutUint32(h[88:], crc32.ChecksumIEEE(table))
		le.PutUint32(h[16:], crc32.ChecksumIEEE(h))
		copy(out[at*sector:], h)
		copy(out[tableAt*sector:], table)
	}
	header(1, last, 2)
	header(last, 1, last-tableSize)
}
