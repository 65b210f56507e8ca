package disk

import (
	"bytes"
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"writ/internal/test/testenv"
)

func TestADiskIsAlsoACD(t *testing.T) {
	image, err := Build(sample(), 0)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "cd.iso")
	if err := os.WriteFile(file, image, 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(testenv.Need(t, "blkid"), "-p", "-n", "iso9660", "-o", "export", file).CombinedOutput()
	for _, want := range []string{"TYPE=iso9660", "LABEL=WRIT", "BOOT_SYSTEM_ID=EL\\ TORITO\\ SPECIFICATION"} {
		if err != nil || !strings.Contains(string(out), want) {
			t.Errorf("output of blkid lacks %s: %v\n%s", want, err, out)
		}
	}

	le := binary.LittleEndian
	catalog := image[le.Uint32(image[isoBoot*block+71:])*block:]
	var sum uint16
	for i := 0; i < 32; i += 2 {
		sum += le.Uint16(catalog[i:])
	}
	if sum != 0 || catalog[0] != 1 || catalog[1] != 0xef || catalog[32] != 0x88 {
		t.Errorf("the boot catalogue is %x, its sum %d", catalog[:64], sum)
	}
	begin := le.Uint64(image[2*sector+32:]) * sector // start of the partition in the partition table
	if at := uint64(le.Uint32(catalog[40:])) * block; at != begin || !bytes.Equal(image[at+82:at+90], []byte("FAT32   ")) {
		t.Errorf("firmware is led to byte %d, the partition begins at %d", at, begin)
	}
}
