package image

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"writ"
	"writ/internal/confine"
	"writ/internal/diskformat"
)

// converter returns the path of the program that converts qcow2 disks to raw disks.
func (d *Driver) converter() (string, error) {
	path, err := exec.LookPath("qemu-img")
	if err != nil {
		return "", writ.Errorf(writ.CodeDriverMissing,
			"this node lacks the program qemu-img, which converts qcow2 disks").
			WithHint("apt-get install -y qemu-utils, or fetch the image in the format raw")
	}
	if err := confine.Holds(); err != nil && !d.Accounts.Used() {
		return "", writ.Errorf(writ.CodeDriverMissing,
			"this node does not convert qcow2 disks, because it cannot confine qemu-img: %w", err).
			WithHint("fetch the image in the format raw; a node converts if its kernel has Landlock, or with users for processes (writ " +
				"runner --process-users)")
	}
	return filepath.Abs(path)
}

// magic begins every qcow2 disk.
var magic = []byte("QFI\xfb")

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

func readStart(path string, n int) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	start, err := io.ReadAll(io.LimitReader(f, int64(n)))
	return start, err
}

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
		return refuse("it is larger than any volume").WithHint("shrink its partitions, and then it: qemu-img resize --shrink IN SIZE")
	}
	return nil
}

// Limits of one conversion. They stop a converter that a malicious disk has compromised.
const (
	convertMemory  = 2 << 30
	convertCPU     = 30 * time.Minute // the default deadline of the whole operation
	convertFiles   = 64
	convertThreads = 512 // for all conversions together; each has a few dozen
)

// convert converts a qcow2 disk to a raw disk and replaces the output of earlier attempts. The content is untrusted, so
// the program gets two open files and no other access: no network, no files, no privileges.
func (p *part) convert(ctx context.Context) error {
	start, err := readStart(p.to, headerBytes)
	if err != nil {
		return err
	}
	if err := checkHeader(start); err != nil {
		return err
	}
	path, err := p.converter()
	if err != nil {
		return err
	}
	from, err := os.Open(p.to)
	if err != nil {
		return err
	}
	defer from.Close()
	p.step("convert the image")
	if err := os.Remove(p.made); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	to, err := os.OpenFile(p.made, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer to.Close()
	if err := to.Truncate(sizeIn(start)); err != nil {
		return err
	}
	if err := p.confined(ctx, path, from, to, sizeIn(start)); err != nil {
		return err
	}
	return to.Sync()
}

// sizeIn returns the disk size in a qcow2 header, rounded up to whole sectors.
func sizeIn(header []byte) int64 {
	const sector = 512
	return int64(binary.BigEndian.Uint64(header[24:])+sector-1) &^ (sector - 1)
}

// confined runs the program in a sandbox to convert one open file to another.
func (p *part) confined(ctx context.Context, path string, from, to *os.File, size int64) error {
	// The open files follow the standard ones. References of the disk to other files are ignored, and the sandbox would
	// block them.
	const (
		source = `json:{"driver":"qcow2","backing":null,"file":{"driver":"file","filename":"/dev/fd/3"}}`
		target = `driver=raw,file.driver=file,file.filename=/dev/fd/4`
	)
	cell := confine.Cell{Sandbox: &confine.Sandbox{
		Files: []confine.File{{File: from}, {File: to, Write: true}},
		Limits: confine.Limits{
			Memory: convertMemory, FileSize: uint64(size), CPU: convertCPU, Files: convertFiles,
			Processes: convertThreads,
		},
	}}
	if p.Accounts.Used() { // no other process runs as this user; its group may traverse directories, not open files
		cell.User, cell.SharedGroup = p.Accounts.SharedGroup, p.Accounts.SharedGroup
		for _, f := range []*os.File{from, to} {
			if err := f.Chown(int(cell.User), -1); err != nil {
				return err
			}
		}
	}
	c := exec.CommandContext(ctx, path, "convert", "-n", "--target-is-zero", "--target-image-opts", source, target)
	said := &headBuffer{}
	c.Env, c.Dir, c.Stdout, c.Stderr = []string{"LC_ALL=C", "MALLOC_ARENA_MAX=2"}, "/", said, said
	c.WaitDelay = time.Second
	err := confine.Start(c, cell)
	if barred, ok := errors.AsType[*confine.Barred](err); ok {
		return writ.Errorf(writ.CodeDriverRefused, "cannot convert the disk: %w", barred).
			WithHint("make %s executable for all users", barred.Program)
	}
	if err != nil {
		return fmt.Errorf("start qemu-img in a sandbox: %w", err)
	}
	err = c.Wait()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		return p.conversionError(ctx,
			fmt.Errorf("qemu-img: %w: %s", err, strings.Join(strings.Fields(said.String()), " ")))
	}
	if cell.User != 0 {
		return to.Chown(os.Geteuid(), -1)
	}
	return nil
}

// conversionError returns the error for a failed conversion. The output of the program is only for the operator: it
// names the files that the program tried to open.
func (p *part) conversionError(ctx context.Context, why error) error {
	const nothing = 16 << 20 // less than this counts as full: converters write large blocks
	switch free, total, known := room(p.made); {
	case known && free < nothing && p.diskUsage() > total/10*9:
		return writ.Errorf(writ.CodeDriverRefused,
			"the unpacked disk has more than %d MiB, and the node's disk has %d in total", p.diskUsage()>>20,
			total>>20).
			WithHint("use a smaller image, or a node with a larger disk")
	case known && free < nothing:
		return writ.Errorf(writ.CodeDiskFull, "the node's disk is too small for the unpacked disk").
			WithHint("free space on the node's disk; the call is retried")
	}
	return p.refuse(ctx, "converter", why, writ.Errorf(writ.CodeArgumentsInvalid,
		"qemu-img cannot convert the content: it is damaged, or needs more than one file").
		WithHint("check it with qemu-img check, and flatten it: qemu-img convert -O qcow2 IN OUT; the node's log has the output of the program"))
}

// diskUsage returns the disk space of the image in bytes, packed and unpacked.
func (p *part) diskUsage() (bytes int64) {
	for _, path := range []string{p.to, p.made} {
		if info, err := os.Stat(path); err == nil {
			bytes += occupied(info)
		}
	}
	return bytes
}

// headBuffer keeps the first 4 KiB written to it.
type headBuffer struct{ bytes.Buffer }

func (b *headBuffer) Write(text []byte) (int, error) {
	const most = 4 << 10
	_, _ = b.Buffer.Write(text[:max(0, min(len(text), most-b.Len()))])
	return len(text), nil
}
