package disk

import "encoding/binary"

// The same bytes are also a CD image. The structures of ISO 9660 lie between the partition table and the partition, and
// the El Torito boot entry points to the partition. The CD has an empty directory.
const (
	block         = 2048 // sector size of a CD
	isoPrimary    = 16   // positions in blocks
	isoBoot       = 17
	isoEnd        = 18
	isoPathLittle = 19
	isoPathBig    = 20
	isoRoot       = 21
	isoCatalog    = 22

	isoRecord   = 34 // length of a directory record with a one-byte name
	efiPlatform = 0xef
	bootable    = 0x88
)

// writeISO writes the structures of the CD.
func writeISO(out []byte) {
	le, be := binary.LittleEndian, binary.BigEndian
	both32 := func(b []byte, v uint32) {
		le.PutUint32(b, v)
		be.PutUint32(b[4:], v)
	}
	both16 := func(b []byte, v uint16) {
		le.PutUint16(b, v)
		be.PutUint16(b[2:], v)
	}
	descriptor := func(at int, kind byte) []byte {
		b := out[at*block : (at+1)*block]
		b[0] = kind
		copy(b[1:], "CD001\x01")
		return b
	}
	// directory returns the record of the only directory, under one of its two names.
	directory := func(name byte) []byte {
		r := make([]byte, isoRecord)
		r[0] = isoRecord
		both32(r[2:], isoRoot)
		both32(r[10:], block)
		r[25] = 2 // directory flag
		both16(r[28:], 1)
		r[32], r[33] = 1, name
		return r
	}

	p := descriptor(isoPrimary, 1)
	pad(p[8:40], "")
	pad(p[40:72], "WRIT")
	both32(p[80:], uint32(len(out)/block))
	both16(p[120:], 1) // volume set size
	both16(p[124:], 1) // sequence number
	both16(p[128:], block)
	const pathLen = 10
	both32(p[132:], pathLen)
	le.PutUint32(p[140:], isoPathLittle)
	be.PutUint32(p[148:], isoPathBig)
	copy(p[156:], directory(0))
	pad(p[190:813], "")
	for i := range 4 { // unset timestamps
		copy(p[813+17*i:], "0000000000000000")
	}
	p[881] = 1

	b := descriptor(isoBoot, 0)
	copy(b[7:], "EL TORITO SPECIFICATION")
	le.PutUint32(b[71:], isoCatalog)
	descriptor(isoEnd, 255)

	for at, order := range map[int]binary.ByteOrder{isoPathLittle: le, isoPathBig: be} {
		t := out[at*block:]
		t[0] = 1 // length of the name
		order.PutUint32(t[2:], isoRoot)
		order.PutUint16(t[6:], 1)
	}
	copy(out[isoRoot*block:], directory(0))
	copy(out[isoRoot*block+isoRecord:], directory(1))

	c := out[isoCatalog*block:]
	c[0], c[1] = 1, efiPlatform
	c[30], c[31] = 0x55, 0xaa
	var sum uint16
	for i := 0; i < 32; i += 2 {
		sum += le.Uint16(c[i:])
	}
	le.PutUint16(c[28:], -sum)
	c[32] = bootable
	// The sector count has 16 bits, which is too small for the partition. EDK II takes 0 as everything up to the end of
	// the CD.
	le.PutUint32(c[40:], alignment/block)
}

// pad writes text padded with spaces.
func pad(b []byte, text string) {
	for i := copy(b, text); i < len(b); i++ {
		b[i] = ' '
	}
}
