package image

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"writ"
	"writ/internal/confine"
	"writ/internal/diskspace"
	"writ/internal/sleep"
)

// conversion converts the qcow2 disk of a part to a raw disk.
type conversion struct {
	*part
	accounts *confine.Accounts // see Driver.Accounts
}

// findConverter returns the path of the program that converts qcow2 disks to raw disks.
func findConverter(accounts *confine.Accounts) (string, error) {
	path, err := exec.LookPath("qemu-img")
	if err != nil {
		return "", writ.Errorf(writ.CodeDriverMissing,
			"this node lacks the program qemu-img, which converts qcow2 disks").
			WithHint("apt-get install -y qemu-utils, or fetch the image in the format raw")
	}
	if err := confine.Holds(); err != nil && !accounts.Used() {
		return "", writ.Errorf(writ.CodeDriverMissing,
			"this node does not convert qcow2 disks, because it cannot confine qemu-img: %w", err).
			WithHint("fetch the image in the format raw; a node converts if its kernel has Landlock, or with users for processes (writ " +
				"runner --process-users)")
	}
	return filepath.Abs(path)
}

// sizeCheckInterval is the interval between size checks of a disk that is being converted.
const sizeCheckInterval = 100 * time.Millisecond

// withinLimit runs the function `do`, which grows the converted file, and cancels it when images exceed their limit.
func (c conversion) withinLimit(ctx context.Context, do func(ctx context.Context) error) error {
	check := func() error {
		info, err := os.Stat(c.made)
		if err != nil {
			return nil // not created yet
		}
		return c.fits(diskspace.Occupied(info))
	}
	limited, cancel := context.WithCancelCause(ctx)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		for sleep.For(limited, sizeCheckInterval) == nil {
			if err := check(); err != nil {
				cancel(err)
			}
		}
	}()
	err := do(limited)
	if refused := context.Cause(limited); refused != nil && ctx.Err() == nil {
		err = refused
	}
	cancel(nil)
	<-watched
	if err == nil {
		err = check()
	}
	return err
}

// Limits of one conversion. They stop a converter that a malicious disk has compromised.
const (
	convertMemory  = 2 << 30
	convertCPU     = 30 * time.Minute // the default deadline of the whole operation
	convertFiles   = 64
	convertThreads = 512 // for all conversions together; each conversion has a few dozen
)

// run converts a qcow2 disk to a raw disk and replaces the output of earlier attempts. The content is untrusted, so
// the program gets two open files and no other access: no network, no files, no privileges.
func (c conversion) run(ctx context.Context) error {
	start, err := readStart(c.to)
	if err != nil {
		return err
	}
	if err := checkHeader(start); err != nil {
		return err
	}
	path, err := findConverter(c.accounts)
	if err != nil {
		return err
	}
	from, err := os.Open(c.to)
	if err != nil {
		return err
	}
	defer from.Close()
	c.step("convert the image")
	if err := os.Remove(c.made); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	to, err := os.OpenFile(c.made, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer to.Close()
	if err := to.Truncate(sizeIn(start)); err != nil {
		return err
	}
	if err := c.confined(ctx, path, from, to, sizeIn(start)); err != nil {
		return err
	}
	return to.Sync()
}

// confined runs the program in a sandbox to convert one open file to another.
func (c conversion) confined(ctx context.Context, path string, from, to *os.File, size int64) error {
	// The two open files have the descriptors 3 and 4. qemu-img ignores references of the disk to other files, and the
	// sandbox would block the access to them.
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
	if c.accounts.Used() { // no other process runs as this user; its group may traverse directories, not open files
		cell.User, cell.SharedGroup = c.accounts.SharedGroup, c.accounts.SharedGroup
		for _, f := range []*os.File{from, to} {
			if err := f.Chown(int(cell.User), -1); err != nil {
				return err
			}
		}
	}
	cmd := exec.CommandContext(ctx, path, "convert", "-n", "--target-is-zero", "--target-image-opts", source, target)
	said := &headBuffer{}
	cmd.Env, cmd.Dir, cmd.Stdout, cmd.Stderr = []string{"LC_ALL=C", "MALLOC_ARENA_MAX=2"}, "/", said, said
	cmd.WaitDelay = time.Second
	err := confine.Start(cmd, cell)
	if barred, ok := errors.AsType[*confine.Barred](err); ok {
		return writ.Errorf(writ.CodeDriverRefused, "cannot convert the disk: %w", barred).
			WithHint("make %s executable for all users", barred.Program)
	}
	if err != nil {
		return fmt.Errorf("start qemu-img in a sandbox: %w", err)
	}
	err = cmd.Wait()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		return c.failure(ctx,
			fmt.Errorf("qemu-img: %w: %s", err, strings.Join(strings.Fields(said.String()), " ")))
	}
	if cell.User != 0 {
		return to.Chown(os.Geteuid(), -1)
	}
	return nil
}

// failure returns the error for a failed conversion. The output of the program only goes to the operator's log, because
// it contains the paths of files that the program tried to open.
func (c conversion) failure(ctx context.Context, why error) error {
	const nothing = 16 << 20 // a disk with less free space counts as full: converters write large blocks
	switch total, free, err := diskspace.Of(c.made); {
	case err == nil && free < nothing && c.diskUsage() > total/10*9:
		return writ.Errorf(writ.CodeDriverRefused,
			"the unpacked disk has more than %d MiB, and the node's disk has %d in total", c.diskUsage()>>20,
			total>>20).
			WithHint("use a smaller image, or a node with a larger disk")
	case err == nil && free < nothing:
		return writ.Errorf(writ.CodeDiskFull, "the node's disk is too small for the unpacked disk").
			WithHint("free space on the node's disk; the call is retried")
	}
	return c.refuse(ctx, "converter", why, writ.Errorf(writ.CodeArgumentsInvalid,
		"qemu-img cannot convert the content: it is damaged, or needs more than one file").
		WithHint("check it with qemu-img check, and flatten it: qemu-img convert -O qcow2 IN OUT; the node's log has the output of the program"))
}

// diskUsage returns the disk space of the image in bytes, packed and unpacked.
func (c conversion) diskUsage() (bytes int64) {
	for _, path := range []string{c.to, c.made} {
		if info, err := os.Stat(path); err == nil {
			bytes += diskspace.Occupied(info)
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
