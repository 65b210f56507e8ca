package volume

import (
	"fmt"
	"maps"
	"os"
	"path"
	"slices"
	"strconv"
	"time"

	"writ/sal"
)

// blockSize is the block size of tar.
const blockSize = 512

// header is the header of an archive entry.
type header struct {
	name, link     string
	kind           byte
	mode, uid, gid int64
	size           int64 // of the content that follows
	modified       time.Time
	records        map[string]string // further PAX records
}

// maxAttributes limits the extended attributes of an entry, in bytes. Readers of tar reject PAX records of more than 1
// MiB.
const maxAttributes = 960 << 10

// attributes adds the extended attributes of a file or directory.
func (h *header) attributes(f *os.File) error {
	total := 0
	return sal.EachAttribute(f, func(name, value string) error {
		key := attributePrefix + name
		if total += len(paxRecord(key, value)); total > maxAttributes {
			return fmt.Errorf("%s has more than %d KiB of extended attributes, too many for an archive", h.name,
				maxAttributes>>10)
		}
		h.records[key] = value
		return nil
	})
}

// sparse converts h to the header of a file with holes, in format 1.0 of GNU tar. It returns the list of extents, which
// precedes the data in the archive.
func (h *header) sparse(extents []extent, size int64) (list []byte) {
	for key, value := range map[string]string{
		"major": "1", "minor": "0", "name": h.name, "realsize": strconv.FormatInt(size, 10),
	} {
		h.records["GNU.sparse."+key] = value
	}
	h.name = path.Join(path.Dir(h.name), "GNUSparseFile.0", path.Base(h.name))
	list = fmt.Appendf(list, "%d\n", len(extents))
	for _, e := range extents {
		list = fmt.Appendf(list, "%d\n%d\n", e.start, e.length)
	}
	return append(list, make([]byte, padding(int64(len(list))))...)
}

// blocks encodes the header: first the PAX records, which every entry has, then the ustar header.
func (h *header) blocks() []byte {
	h.addRecords()
	var records []byte
	for _, key := range slices.Sorted(maps.Keys(h.records)) {
		records = append(records, paxRecord(key, h.records[key])...)
	}
	all := ustar("PaxHeader", "", 'x', 0o644, 0, 0, int64(len(records)), 0)
	all = append(all, records...)
	all = append(all, make([]byte, padding(int64(len(records))))...)
	return append(all, ustar(h.name, h.link, h.kind, h.mode, h.uid, h.gid, h.size, h.modified.Unix())...)
}

func (h *header) addRecords() {
	if h.records == nil {
		h.records = map[string]string{}
	}
	h.records["path"] = h.name
	if h.link != "" {
		h.records["linkpath"] = h.link
	}
	h.records["mtime"] = fmt.Sprintf("%d.%09d", h.modified.Unix(), h.modified.Nanosecond())
	for key, n := range map[string]int64{"uid": h.uid, "gid": h.gid} {
		if n > 0o7777777 {
			h.records[key] = strconv.FormatInt(n, 10)
		}
	}
	if h.size > maxOctal {
		h.records["size"] = strconv.FormatInt(h.size, 10)
	}
}

// maxOctal is the largest size that fits into a ustar header: 8 GiB less one byte.
const maxOctal = 1<<33 - 1

// paxRecord formats a PAX record. Its length prefix includes the prefix itself.
func paxRecord(key, value string) string {
	rest := " " + key + "=" + value + "\n"
	n := len(rest) + len(strconv.Itoa(len(rest)))
	return strconv.Itoa(len(strconv.Itoa(n))+len(rest)) + rest
}

// ustar formats a ustar header. Values that do not fit are in the PAX records.
func ustar(name, link string, kind byte, mode, uid, gid, size, modified int64) []byte {
	b := make([]byte, blockSize)
	octal := func(field []byte, n, most int64) {
		if n > most || n < 0 {
			n = 0
		}
		copy(field, fmt.Sprintf("%0*o", len(field)-1, n))
	}
	copy(b[:100], name)
	octal(b[100:108], mode, 0o7777777)
	octal(b[108:116], uid, 0o7777777)
	octal(b[116:124], gid, 0o7777777)
	octal(b[124:136], size, maxOctal)
	octal(b[136:148], modified, maxOctal)
	copy(b[148:156], "        ")
	b[156] = kind
	copy(b[157:257], link)
	copy(b[257:265], "ustar\x0000")
	sum := 0
	for _, c := range b {
		sum += int(c)
	}
	copy(b[148:156], fmt.Sprintf("%06o\x00 ", sum))
	return b
}

// padding returns the number of bytes missing to a multiple of blockSize.
func padding(size int64) int64 { return -size & (blockSize - 1) }
