package volume

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
	"path/filepath"
	"slices"

	"writ"
	"writ/sal"
	"writ/sal/catalog"
)

// backupPath returns the path of an archive. It is safe: names of backups are resource names, and projects are UUIDs.
func (j *job) backupPath(name string) string {
	return filepath.Join(j.Dir, "backups", string(j.Resource.Project), name+".tar")
}

// partPath returns the path of this volume's archive while it is being written.
func (j *job) partPath() string {
	return filepath.Join(filepath.Dir(j.backupPath("")), "."+j.name+".part")
}

// removePart removes an unfinished archive. A file that remains is harmless.
//
//failpoint:none it removes an unfinished file, which does no harm if it stays
func (j *job) removePart() { _ = os.Remove(j.partPath()) }

// removeUnnamedPart removes an unfinished archive unless it has its final name already.
func (j *job) removeUnnamedPart() {
	part, err := os.Lstat(j.partPath())
	if err != nil {
		return
	}
	others, err := os.ReadDir(filepath.Dir(j.partPath()))
	whole := slices.ContainsFunc(others, func(e fs.DirEntry) bool {
		info, err := e.Info()
		return err == nil && info.Name() != part.Name() && os.SameFile(part, info)
	})
	if err == nil && !whole {
		j.removePart()
	}
}

// send writes the archive to a temporary file and links it to its name once it is complete. The record names the
// archive before that.
func (j *job) send(ctx context.Context, r *record, args *catalog.VolumeSend) (sal.Outcome, error) {
	if args.Snapshot != "" {
		if err := j.hasSnapshot(ctx, j.Resource, args.Snapshot); err != nil {
			return sal.Outcome{}, err
		}
	}
	if err := j.finishArchives(r); err != nil {
		return sal.Outcome{}, err
	}
	if there, err := os.Lstat(j.backupPath(args.Backup)); err == nil {
		return j.sent(ctx, r, args, there)
	}
	from, done, err := j.Trees.View(ctx, j.name, args.Snapshot)
	if err != nil {
		return sal.Outcome{}, err
	}
	sum, err := j.write(ctx, r, args.Backup, from)
	if err := errors.Join(err, done()); err != nil {
		j.removePart()
		_ = j.finishArchives(r) // otherwise the next call does it
		return sal.Outcome{}, sal.HostError("write the backup "+args.Backup, err)
	}
	if err := j.finishArchives(r); err != nil {
		return sal.Outcome{}, err
	}
	j.removePart() // last, because until then the file marks the archive of an interrupted attempt
	return j.sentOutcome(ctx, r, args, sum)
}

// write writes an archive under its name and returns its SHA-256.
func (j *job) write(ctx context.Context, r *record, name, from string) (sum string, err error) {
	size, err := packedSize(ctx, from)
	if err != nil {
		return "", err
	}
	release, err := j.reserve(ctx, r, name, size)
	if err != nil {
		return "", err
	}
	defer release()
	if sum, err = j.archive(ctx, from, size); err != nil {
		return "", err
	}
	j.step("name the archive")
	to := j.backupPath(name)
	if err := os.Link(j.partPath(), to); errors.Is(err, fs.ErrExist) {
		return "", backupExists(name)
	} else if err != nil {
		return "", err
	}
	return sum, sal.SyncDir(filepath.Dir(to))
}

// sent returns an existing archive if an interrupted attempt of this volume completed it. Any other archive of that
// name is a conflict.
func (j *job) sent(ctx context.Context, r *record, args *catalog.VolumeSend, there fs.FileInfo) (sal.Outcome, error) {
	part, err := os.Lstat(j.partPath())
	if err != nil || !os.SameFile(part, there) {
		return sal.Outcome{}, backupExists(args.Backup)
	}
	f, err := os.Open(j.partPath())
	if err != nil {
		return sal.Outcome{}, sal.HostError("read the backup "+args.Backup, err)
	}
	defer f.Close()
	hash := sha256.New()
	if _, err := io.Copy(hash, &contextReader{ctx, f}); err != nil {
		return sal.Outcome{}, sal.HostError("read the backup "+args.Backup, err)
	}
	j.removePart()
	return j.sentOutcome(ctx, r, args, hex.EncodeToString(hash.Sum(nil)))
}

func (j *job) sentOutcome(ctx context.Context, r *record, args *catalog.VolumeSend, sum string) (sal.Outcome, error) {
	v, err := j.show(ctx, r)
	return sal.Outcome{Values: catalog.Values(catalog.VolumeSent{Volume: v, Backup: args.Backup, SHA256: sum})}, err
}

func backupExists(name string) error {
	return writ.Errorf(writ.CodeResourceConflict, "the node already has a backup %q", name).WithHint("use another name")
}

// archive writes an archive of a directory to the temporary file and returns its SHA-256.
func (j *job) archive(ctx context.Context, from string, size int64) (sum string, err error) {
	j.step("make backups")
	if err := sal.MakeDir(filepath.Dir(j.partPath())); err != nil {
		return "", err
	}
	j.step("write the archive")
	j.removePart() // after a crash it may be a second name of a complete archive, which must not be truncated
	f, err := os.OpenFile(j.partPath(), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	hash := sha256.New()
	if err := pack(ctx, io.MultiWriter(f, hash, &meter{far: sal.Far(ctx, "written", size)}), from); err != nil {
		return "", err
	}
	return hex.EncodeToString(hash.Sum(nil)), f.Sync()
}

// meter counts the bytes written to it and reports them as progress.
type meter struct {
	far  func(int64)
	done int64
}

func (m *meter) Write(p []byte) (int, error) {
	m.done += int64(len(p))
	m.far(m.done)
	return len(p), nil
}

// backupContent returns the filling for volume.receive.
func (j *job) backupContent(args *catalog.VolumeReceive) (filling, error) {
	_, err := os.Stat(j.backupPath(args.Backup))
	if errors.Is(err, fs.ErrNotExist) {
		return filling{}, writ.Errorf(writ.CodeResourceUnknown, "the node has no backup %q of this project",
			args.Backup).
			WithHint("create one with volume.send")
	}
	if err != nil {
		return filling{}, sal.HostError("look for the backup", err)
	}
	return filling{sizeGiB: args.SizeGiB, into: func(ctx context.Context, _ *record) error {
		f, err := os.Open(j.backupPath(args.Backup))
		if err != nil {
			return err
		}
		from := archived{name: fmt.Sprintf("backup %q", args.Backup), sizeGiB: args.SizeGiB, sha256: args.SHA256}
		return errors.Join(j.receive(ctx, f, from), f.Close())
	}}, nil
}

// archived describes an archive from which a volume is made.
type archived struct {
	name    string // for messages
	sizeGiB int64  // size of the volume
	sha256  string // expected digest, "" if unknown
}

// receive unpacks an archive into a new tree. The archive cannot write outside the tree.
func (j *job) receive(ctx context.Context, f *os.File, from archived) error {
	info, err := checkEnd(f)
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		return from.asInvalid(err)
	}
	dir, err := j.Trees.Make(ctx, j.name, j.bound(from.sizeGiB))
	if err != nil {
		return err
	}
	hash := sha256.New()
	source := io.TeeReader(f, io.MultiWriter(hash, &meter{far: sal.Far(ctx, "read", info.Size())}))
	u := &unpacking{fits: func(bytes int64) error { return j.fits(bytes, from.sizeGiB) }, step: j.step}
	unpacked := u.unpack(ctx, dir, source)
	if unpacked != nil && (from.sha256 == "" || isHostError(unpacked)) {
		return from.asInvalid(unpacked)
	}
	if _, err := io.Copy(io.Discard, &contextReader{ctx, source}); err != nil { // trailing bytes count too
		return err
	}
	if sum := hex.EncodeToString(hash.Sum(nil)); from.sha256 != "" && sum != from.sha256 {
		return writ.Errorf(writ.CodeChecksumMismatch, "the %s has the SHA-256 %s, not %s", from.name, sum, from.sha256)
	}
	if unpacked != nil {
		return from.asInvalid(unpacked)
	}
	if err := j.reclaimDisk(dir); err != nil {
		return err
	}
	return j.growDisk(dir, from.sizeGiB*gib)
}

// checkEnd returns an error if an archive lacks its end, two blocks of zeros. Package archive/tar accepts such an
// archive as complete.
func checkEnd(f *os.File) (fs.FileInfo, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	end := make([]byte, 2*blockSize)
	if _, err := f.ReadAt(end, max(0, info.Size()-int64(len(end)))); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if info.Size() < int64(len(end)) || len(bytes.Trim(end, "\x00")) > 0 {
		return nil, errors.New("the end is missing")
	}
	return info, nil
}

// asInvalid wraps err as an error about an invalid archive, unless err concerns the host, the volume or the context.
func (a archived) asInvalid(err error) error {
	if isHostError(err) {
		return err
	}
	return writ.Errorf(writ.CodeArgumentsInvalid, "the %s is not an archive of volume.send: %w", a.name, err)
}

// contextReader fails once its context has ended.
type contextReader struct {
	ctx context.Context
	io.Reader
}

func (r *contextReader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.Reader.Read(p)
}
