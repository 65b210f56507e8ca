package image

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"

	"writ"
)

// converter finds what makes raw disks of qcow2 disks.
func converter() (string, error) {
	path, err := exec.LookPath("qemu-img")
	if err != nil {
		return "", writ.Errorf(writ.CodeDriverMissing, "this node has no program qemu-img, which makes raw disks of qcow2 disks").
			WithHint("apt-get install -y qemu-utils, or fetch the image in the format raw")
	}
	return path, nil
}

// magic is how every qcow2 disk begins.
var magic = []byte("QFI\xfb")

// checkRaw refuses a qcow2 disk that is called raw: no machine could start from it.
func checkRaw(path string) error {
	start, err := readStart(path, len(magic))
	if err == nil && bytes.Equal(start, magic) {
		err = writ.Errorf(writ.CodeArgumentsInvalid, "the content is a qcow2 disk").WithHint(`say format: "qcow2"`)
	}
	return err
}

func readStart(path string, n int) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	start, err := io.ReadAll(io.LimitReader(f, int64(n)))
	return start, err
}

// headerBytes is how much of a qcow2 disk says all that is asked here.
const headerBytes = 80

// checkHeader reads the start of a qcow2 disk (docs/interop/qcow2.txt of QEMU) and refuses one that is not whole by itself. A converter
// would read any file of the node that such a disk names.
func checkHeader(h []byte) error {
	refuse := func(why string) error {
		return writ.Errorf(writ.CodeArgumentsInvalid, "the content is no qcow2 disk that can be used: %s", why)
	}
	const (
		maxBytes     = 65536 << 30 // as big as a volume can be
		dataFileFlag = 1 << 2
	)
	if len(h) < 72 || !bytes.Equal(h[:4], magic) {
		return refuse("it does not begin as one")
	}
	version := binary.BigEndian.Uint32(h[4:])
	switch {
	case version != 2 && version != 3:
		return refuse(fmt.Sprintf("its version is %d", version))
	case binary.BigEndian.Uint64(h[8:]) != 0:
		return refuse("it has a backing file").(*writ.Error).WithHint("flatten it: qemu-img convert -O qcow2 IN OUT")
	case version == 3 && (len(h) < headerBytes || binary.BigEndian.Uint64(h[72:])&dataFileFlag != 0):
		return refuse("its data is in another file").(*writ.Error).WithHint("flatten it: qemu-img convert -O qcow2 IN OUT")
	case binary.BigEndian.Uint32(h[32:]) != 0:
		return refuse("it is encrypted")
	case binary.BigEndian.Uint64(h[24:]) > maxBytes:
		return refuse("it is bigger than any volume")
	}
	return nil
}

// convert makes a raw disk of a qcow2 disk, in place of what an earlier try left.
func convert(ctx context.Context, to, from string) error {
	start, err := readStart(from, headerBytes)
	if err != nil {
		return err
	}
	if err := checkHeader(start); err != nil {
		return err
	}
	path, err := converter()
	if err != nil {
		return err
	}
	c := exec.CommandContext(ctx, path, "convert", "-f", "qcow2", "-O", "raw", from, to)
	c.Env = []string{"LC_ALL=C"}
	said, err := c.CombinedOutput()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err == nil {
		return syncFile(to)
	}
	const nothing = 16 << 20 // less than this is none: converters write in big pieces
	if free, known := room(to); known && free < nothing {
		return writ.Errorf(writ.CodeDiskFull, "the node's disk is too small for the disk as it is unpacked").
			WithHint("free room on the node's disk; the call is tried again")
	}
	return writ.Errorf(writ.CodeArgumentsInvalid, "qemu-img cannot convert the content: %w: %s", err, strings.TrimSpace(strings.ReplaceAll(string(said), from, "it")))
}

func syncFile(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
