package image

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"os"

	"writ"
	"writ/internal/diskformat"
)

// checkRaw rejects content in a known format other than raw disk, kernel or initramfs. It accepts a compressed kernel;
// volume.create rejects it.
func checkRaw(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	format, recognised, err := diskformat.Recognise(f, info.Size())
	if err != nil || !recognised || format.Boot {
		return err
	}
	return writ.Errorf(writ.CodeArgumentsInvalid, "the content is %s", format.Name).WithHint("%s", format.Remedy)
}

// magic begins every qcow2 disk.
var magic = []byte("QFI\xfb")

// headerBytes is the length of the header that checkHeader needs.
const headerBytes = 80

// checkHeader checks the header of a qcow2 disk (docs/interop/qcow2.txt of QEMU) and rejects disks that need other
// files: a converter would read any file of the node that the disk names.
func checkHeader(h []byte) error {
	refuse := func(why string) *writ.Error {
		return writ.Errorf(writ.CodeArgumentsInvalid, "the content is not a usable qcow2 disk: %s", why)
	}
	const (
		maxBytes     = 65536 << 30 // maximum size of a volume
		dataFileFlag = 1 << 2
	)
	if len(h) < 72 || !bytes.Equal(h[:4], magic) {
		return refuse("it lacks the qcow2 header")
	}
	version := binary.BigEndian.Uint32(h[4:])
	switch {
	case version != 2 && version != 3:
		return refuse(fmt.Sprintf("its version is %d", version)).WithHint("convert it: qemu-img convert -O qcow2 IN OUT")
	case binary.BigEndian.Uint64(h[8:]) != 0:
		return refuse("it has a backing file").WithHint("flatten it: qemu-img convert -O qcow2 IN OUT")
	case version == 3 && (len(h) < headerBytes || binary.BigEndian.Uint64(h[72:])&dataFileFlag != 0):
		return refuse("its data is in another file").WithHint("flatten it: qemu-img convert -O qcow2 IN OUT")
	case binary.BigEndian.Uint32(h[32:]) != 0:
		return refuse("it is encrypted").
			WithHint("decrypt it with qemu-img convert --object secret,id=key,file=KEY --image-opts " +
				"driver=qcow2,file.filename=IN,encrypt.key-secret=key -O qcow2 OUT")
	case binary.BigEndian.Uint64(h[24:]) > maxBytes:
		return refuse("it is larger than any volume").WithHint("shrink its partitions, and then the disk: qemu-img resize --shrink IN SIZE")
	}
	return nil
}

// sizeIn returns the disk size in a qcow2 header, rounded up to whole sectors.
func sizeIn(header []byte) int64 {
	const sector = 512
	return int64(binary.BigEndian.Uint64(header[24:])+sector-1) &^ (sector - 1)
}

// readStart returns the first bytes of a disk, enough for a header.
func readStart(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, headerBytes))
}
