package logring

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"writ/internal/cbor"
)

// A slot starts with the CRC-32 of the rest, the length of the encoded line, and its number. Lines are numbered from 1,
// and the number determines the slot. A write that a crash interrupts therefore loses only its own line and the line
// that it replaces.
const (
	slotSize = 1 << 10
	headSize = 4 + 2 + 8
)

// Dir is the directory of the rings within a node's data directory.
const Dir = "log"

// ending is the file extension of a ring.
const ending = ".ring"

// File returns the file of a source's ring in a directory.
func File(dir, source string) string { return filepath.Join(dir, source+ending) }

// Sources lists the sources of the rings in a directory.
func Sources(dir string) (sources []string) {
	files, _ := filepath.Glob(File(dir, "*")) // the pattern is valid
	for _, file := range files {
		sources = append(sources, strings.TrimSuffix(filepath.Base(file), ending))
	}
	return sources
}

// Entry is a line in a ring.
type Entry struct {
	Line
	Number int64 // from 1, increasing
}

// write writes a line to its slot.
func write(file *os.File, number int64, l Line) error {
	text, err := cbor.Marshal(l)
	if err != nil {
		return fmt.Errorf("encode a line: %w", err)
	}
	slot := make([]byte, 4, slotSize)
	slot = binary.BigEndian.AppendUint16(slot, uint16(len(text)))
	slot = binary.BigEndian.AppendUint64(slot, uint64(number))
	slot = append(slot, text...)
	if len(slot) > slotSize {
		return fmt.Errorf("a line of %d bytes", len(text))
	}
	binary.BigEndian.PutUint32(slot, crc32.ChecksumIEEE(slot[4:]))
	_, err = file.WriteAt(slot, number%Lines*slotSize)
	return err
}

// Read returns the lines in a file, oldest first. It returns no lines for a missing file, and skips damaged slots.
func Read(path string) ([]Entry, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read a log: %w", err)
	}
	var all []Entry
	for i := range min(Lines, (len(text)+slotSize-1)/slotSize) {
		if e, ok := read(text[i*slotSize : min((i+1)*slotSize, len(text))]); ok && e.Number%Lines == int64(i) {
			all = append(all, e)
		}
	}
	slices.SortFunc(all, func(a, b Entry) int { return cmp.Compare(a.Number, b.Number) })
	return all, nil
}

// read decodes the line in a slot.
func read(slot []byte) (e Entry, ok bool) {
	if len(slot) < headSize {
		return e, false
	}
	end := headSize + int(binary.BigEndian.Uint16(slot[4:]))
	if end > len(slot) || binary.BigEndian.Uint32(slot) != crc32.ChecksumIEEE(slot[4:end]) {
		return e, false
	}
	e.Number = int64(binary.BigEndian.Uint64(slot[6:]))
	return e, e.Number > 0 && cbor.Decode(slot[headSize:end], &e.Line) == nil
}
