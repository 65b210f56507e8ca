package disk

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"writ"
	"writ/internal/test/testenv"
)

// sample returns typical files of an operator and some unusual ones.
func sample() []File {
	files := []File{
		{"EFI/BOOT/BOOTX64.EFI", bytes.Repeat([]byte("image"), 100_001)},
		{"loader/credentials/n1.cred", []byte("writ.name=n1\n")},
		{"loader/credentials/n1-with-a-name-of-more-than-26-letters.cred", []byte("x")},
		{"empty", nil},
		{"thirteen.txtx", []byte("a long name without an end mark")},
	}
	for i := range 40 { // a directory with several clusters
		files = append(files, File{"loader/many-of-them/" + strings.Repeat("x", 5+i) + ".conf", []byte{byte(i)}})
	}
	return files
}

// partition copies the file system of a disk to a file.
func partition(t *testing.T, image []byte) (path string) {
	t.Helper()
	entry := image[2*sector:]
	begin, end := binary.LittleEndian.Uint64(entry[32:]), binary.LittleEndian.Uint64(entry[40:])
	path = filepath.Join(t.TempDir(), "fat")
	if err := os.WriteFile(path, image[begin*sector:(end+1)*sector], 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestOtherProgramsReadTheDisk(t *testing.T) {
	fsck, mtype := testenv.Need(t, "fsck.vfat"), testenv.Need(t, "mtype")
	for _, spare := range []int64{0, 40 << 20, 100 << 20} {
		image, err := Build(sample(), spare)
		if err != nil {
			t.Fatal(err)
		}
		fat := partition(t, image)
		if out, err := exec.Command(fsck, "-n", "-v", fat).CombinedOutput(); err != nil || strings.Contains(string(out), "wrong") || !strings.Contains(string(out), "32 bit entries") {
			t.Errorf("with %d spare bytes: %v\n%s", spare, err, out)
		}
		for _, f := range sample() {
			out, err := exec.Command(mtype, "-i", fat, "::/"+f.Name).Output()
			if err != nil || !bytes.Equal(out, f.Data) {
				t.Errorf("%s has %d bytes, %v, want %d", f.Name, len(out), err, len(f.Data))
			}
		}
	}
}

func TestBothPartitionTablesAreComplete(t *testing.T) {
	image, err := Build(sample(), 0)
	if err != nil {
		t.Fatal(err)
	}
	le := binary.LittleEndian
	last := len(image)/sector - 1
	for _, at := range []int{1, last} {
		header := bytes.Clone(image[at*sector : at*sector+headerSize])
		sum := le.Uint32(header[16:])
		le.PutUint32(header[16:], 0)
		table := image[le.Uint64(header[72:])*sector:][:entries*entrySize]
		begin, end := le.Uint64(table[32:]), le.Uint64(table[40:])
		switch {
		case string(header[:8]) != "EFI PART", crc32.ChecksumIEEE(header) != sum, le.Uint64(header[24:]) != uint64(at), le.Uint64(header[32:]) != uint64(last+1-at):
			t.Errorf("the header at sector %d is damaged", at)
		case crc32.ChecksumIEEE(table) != le.Uint32(header[88:]):
			t.Errorf("the table of sector %d is damaged", at)
		case begin < le.Uint64(header[40:]), end > le.Uint64(header[48:]), begin%2048 != 0:
			t.Errorf("the partition from %d to %d is outside of %d to %d", begin, end, le.Uint64(header[40:]), le.Uint64(header[48:]))
		}
	}
	if len(image)%alignment != 0 {
		t.Errorf("the disk has %d bytes", len(image))
	}
}

func TestEqualFilesMakeEqualDisks(t *testing.T) {
	a, err := Build(sample(), 0)
	if err != nil {
		t.Fatal(err)
	}
	b, _ := Build(sample(), 0)
	if !bytes.Equal(a, b) {
		t.Error("they differ")
	}
	changed := sample()
	changed[1].Data = []byte("writ.name=n2\n")
	if c, _ := Build(changed, 0); bytes.Equal(a[sector:2*sector], c[sector:2*sector]) {
		t.Error("two disks have one id")
	}
}

func TestNamesThatFirmwareCannotReadAreRefused(t *testing.T) {
	for _, names := range [][]string{{""}, {"/a"}, {"../a"}, {"a b"}, {"ä"}, {"a", "A"}, {"a", "a/b"}, {"a/b", "A"}, {strings.Repeat("x", 256)}} {
		var files []File
		for _, name := range names {
			files = append(files, File{Name: name})
		}
		if _, err := Build(files, 0); err == nil {
			t.Errorf("a disk has the files %q", names)
		}
	}
	if _, err := Build(sample(), most); err == nil {
		t.Error("a disk is larger than the largest")
	}
}

func TestImpossibleFreeSpaceIsRefused(t *testing.T) {
	for spare, want := range map[int64]writ.Code{
		-1: writ.CodeUsage, most + 1: writ.CodeTooLarge, 1 << 47: writ.CodeTooLarge, 1<<63 - 1: writ.CodeTooLarge,
	} {
		if image, err := Build(sample(), spare); writ.CodeOf(err) != want {
			t.Errorf("%d bytes of free space: %d MiB, %v, want %s", spare, len(image)>>20, err, want)
		}
	}
}
