package btrfs

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"writ"
	"writ/sal"
	"writ/sal/catalog"
)

// Archives are written and read by the btrfs program: the stream is the kernel's own, and only it knows all of it.

// tool finds the program.
func tool() (string, error) {
	path, err := exec.LookPath("btrfs")
	if err != nil {
		return "", writ.Errorf(writ.CodeDriverMissing, "this node has no program btrfs, which writes and reads archives of volumes").
			WithHint("apt-get install -y btrfs-progs")
	}
	return path, nil
}

func (j *job) backupPath(name string) string {
	return filepath.Join(j.Dir, "backups", string(j.Resource.Project), name+".btrfs")
}

// partPath is where this volume's archive is while it is being written.
func (j *job) partPath() string {
	return filepath.Join(filepath.Dir(j.backupPath("")), "."+j.name+".part")
}

// forgetPart removes a backup that was never finished. If it stays it is in nobody's way.
func (j *job) forgetPart() { _ = os.Remove(j.partPath()) }

// send writes the archive beside its name and gives it the name when it is whole.
func (j *job) send(ctx context.Context, r *sal.Record[own], args *catalog.VolumeSend) (sal.Outcome, error) {
	btrfs, err := tool()
	if err != nil {
		return sal.Outcome{}, err
	}
	if args.Snapshot != "" {
		if err := j.hasSnapshot(ctx, j.Resource, args.Snapshot); err != nil {
			return sal.Outcome{}, err
		}
	}
	to := j.backupPath(args.Backup)
	if _, err := os.Lstat(to); err == nil {
		return sal.Outcome{}, backupExists(args.Backup)
	}
	from, thaw, err := j.Pool.freeze(ctx, j.name, args.Snapshot)
	if err != nil {
		return sal.Outcome{}, err
	}
	sum, err := j.archive(ctx, btrfs, from)
	if err == nil {
		j.step("name the archive")
		err = os.Link(j.partPath(), to)
	}
	if err == nil {
		err = sal.SyncDir(filepath.Dir(to))
	}
	j.forgetPart()
	if errors.Is(err, fs.ErrExist) {
		err = backupExists(args.Backup)
	}
	if err := errors.Join(err, thaw()); err != nil {
		return sal.Outcome{}, sal.HostError("write the backup "+args.Backup, err)
	}
	v, err := j.volume(ctx, r)
	return sal.Outcome{Values: catalog.Values(catalog.VolumeSent{Volume: v, Backup: args.Backup, SHA256: sum})}, err
}

func backupExists(name string) error {
	return writ.Errorf(writ.CodeResourceConflict, "the node has a backup %q already", name).WithHint("use another name")
}

// archive writes a read-only subvolume as a stream and returns its SHA-256.
func (j *job) archive(ctx context.Context, btrfs, from string) (sum string, err error) {
	j.step("make backups")
	if err := sal.MakeDir(filepath.Dir(j.partPath())); err != nil {
		return "", err
	}
	j.step("write the archive")
	f, err := os.OpenFile(j.partPath(), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	hash := sha256.New()
	to := &archiveWriter{to: io.MultiWriter(f, hash), tell: j.Progress}
	if err := run(ctx, exec.CommandContext(ctx, btrfs, "send", "--quiet", from), nil, to); err != nil {
		if to.err != nil {
			err = to.err // the disk that is full, not the program that notices
		}
		return "", err
	}
	return hex.EncodeToString(hash.Sum(nil)), f.Sync()
}

// archiveWriter tells how far it is, and remembers why it could not go on.
type archiveWriter struct {
	to      io.Writer
	tell    func(string)
	written int64
	err     error
}

func (w *archiveWriter) Write(p []byte) (int, error) {
	const every = 256 << 20 // bytes between two words about progress
	n, err := w.to.Write(p)
	if (w.written+int64(n))/every > w.written/every {
		w.tell(fmt.Sprintf("%d MiB written", (w.written+int64(n))>>20))
	}
	w.written += int64(n)
	w.err = err
	return n, err
}

// run runs the program to its end, or to that of ctx.
func run(ctx context.Context, c *exec.Cmd, in io.Reader, out io.Writer) error {
	var said bytes.Buffer
	c.Stdin, c.Stdout, c.Stderr = in, out, &said
	c.Env = []string{"LC_ALL=C"}
	err := c.Run()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		return fmt.Errorf("%s %s: %w: %s", filepath.Base(c.Path), c.Args[1], err, strings.TrimSpace(said.String()))
	}
	return nil
}

// receiveContent finds the archive that a volume is to be made of.
func (j *job) receiveContent(args *catalog.VolumeReceive) (filling, error) {
	if _, err := tool(); err != nil {
		return filling{}, err
	}
	info, err := os.Stat(j.backupPath(args.Backup))
	if errors.Is(err, fs.ErrNotExist) {
		return filling{}, writ.Errorf(writ.CodeResourceUnknown, "the node has no backup %q of this project", args.Backup).WithHint("volume.send makes one")
	}
	if err != nil {
		return filling{}, sal.HostError("look for the backup", err)
	}
	if err := j.fits(info.Size()-info.Size()/slackShare-slackBytes, args.SizeGiB); err != nil { // it has some words besides the content
		return filling{}, err
	}
	return filling{args.SizeGiB, func(ctx context.Context) error { return j.receive(ctx, args) }}, nil
}

// receive makes the tree of an archive. Whatever that says, the program writes nowhere else.
func (j *job) receive(ctx context.Context, args *catalog.VolumeReceive) error {
	btrfs, err := tool()
	if err != nil {
		return err
	}
	f, err := os.Open(j.backupPath(args.Backup))
	if err != nil {
		return err
	}
	defer f.Close()
	if err := checkSum(ctx, f, args); err != nil {
		return err
	}
	j.Progress("the archive is read")
	return j.Pool.fill(ctx, j.name, args.SizeGiB*gib, j.Resource.Project, func(dir string) error {
		err := run(ctx, exec.CommandContext(ctx, btrfs, "receive", "--quiet", "--chroot", dir), f, nil)
		if err == nil || ctx.Err() != nil {
			return err
		}
		if info, e := f.Stat(); e == nil && j.Pool.room() < info.Size() {
			return writ.Errorf(writ.CodeDiskFull, "%w, and the disk has no room for all of it", err).WithHint("free room on the node's disk; the call is tried again")
		}
		return writ.Errorf(writ.CodeArgumentsInvalid, "the backup %q is not an archive that volume.send writes: %w", args.Backup, err)
	}, func(bytes int64) error { return j.fits(bytes, args.SizeGiB) })
}

// checkSum holds an archive against the SHA-256 that it must have, before anything is made of it.
func checkSum(ctx context.Context, f *os.File, args *catalog.VolumeReceive) error {
	if args.SHA256 == "" {
		return nil
	}
	hash := sha256.New()
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		const chunk = 4 << 20
		if _, err := io.CopyN(hash, f, chunk); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return err
		}
	}
	if sum := hex.EncodeToString(hash.Sum(nil)); sum != args.SHA256 {
		return writ.Errorf(writ.CodeChecksumMismatch, "the backup %q has the SHA-256 %s, not %s", args.Backup, sum, args.SHA256)
	}
	_, err := f.Seek(0, io.SeekStart)
	return err
}
