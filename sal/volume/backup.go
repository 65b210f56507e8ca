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

// backupPath is where an archive is. Names of backups are names of resources, and projects are UUIDs.
func (j *job) backupPath(name string) string {
	return filepath.Join(j.Dir, "backups", string(j.Resource.Project), name+".tar")
}

// partPath is where this volume's archive is while it is being written.
func (j *job) partPath() string {
	return filepath.Join(filepath.Dir(j.backupPath("")), "."+j.name+".part")
}

// forgetPart removes a backup that was never finished. If it stays it is in nobody's way.
func (j *job) forgetPart() { _ = os.Remove(j.partPath()) }

// forgetHalf is forgetPart of a backup that has no name yet.
func (j *job) forgetHalf() {
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
		j.forgetPart()
	}
}

// send writes the archive beside its name and links it to the name once it is complete. The record has the archive before.
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
		j.forgetPart()
		_ = j.finishArchives(r) // else the next call does it
		return sal.Outcome{}, sal.HostError("write the backup "+args.Backup, err)
	}
	if err := j.finishArchives(r); err != nil {
		return sal.Outcome{}, err
	}
	j.forgetPart() // last: until then the archive is known as that of an interrupted attempt
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

// sent answers with an archive that is there already: that of an attempt which was interrupted right after it was whole. Any other is somebody's.
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
	if _, err := io.Copy(hash, &endingReader{ctx, f}); err != nil {
		return sal.Outcome{}, sal.HostError("read the backup "+args.Backup, err)
	}
	j.forgetPart()
	return j.sentOutcome(ctx, r, args, hex.EncodeToString(hash.Sum(nil)))
}

func (j *job) sentOutcome(ctx context.Context, r *record, args *catalog.VolumeSend, sum string) (sal.Outcome, error) {
	v, err := j.show(ctx, r)
	return sal.Outcome{Values: catalog.Values(catalog.VolumeSent{Volume: v, Backup: args.Backup, SHA256: sum})}, err
}

func backupExists(name string) error {
	return writ.Errorf(writ.CodeResourceConflict, "the node has a backup %q already", name).WithHint("use another name")
}

// archive writes an archive of a directory beside the backups, and returns its SHA-256.
func (j *job) archive(ctx context.Context, from string, size int64) (sum string, err error) {
	j.step("make backups")
	if err := sal.MakeDir(filepath.Dir(j.partPath())); err != nil {
		return "", err
	}
	j.step("write the archive")
	j.forgetPart() // after a crash it may be another name of a complete archive, which must not be truncated
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

// meter counts what goes by.
type meter struct {
	far  func(int64)
	done int64
}

func (m *meter) Write(p []byte) (int, error) {
	m.done += int64(len(p))
	m.far(m.done)
	return len(p), nil
}

// backupContent finds the archive that a volume is to be made of.
func (j *job) backupContent(args *catalog.VolumeReceive) (filling, error) {
	_, err := os.Stat(j.backupPath(args.Backup))
	if errors.Is(err, fs.ErrNotExist) {
		return filling{}, writ.Errorf(writ.CodeResourceUnknown, "the node has no backup %q of this project", args.Backup).WithHint("volume.send makes one")
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

// archived is what is known of an archive that a volume is to be made of.
type archived struct {
	name    string // for people
	sizeGiB int64  // of the volume
	sha256  string // that it must have, "" if any will do
}

// receive makes the tree of an archive. Whatever that says, nothing is written elsewhere.
func (j *job) receive(ctx context.Context, f *os.File, from archived) error {
	info, err := ended(f)
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		return from.isNone(err)
	}
	dir, err := j.Trees.Make(ctx, j.name, j.bound(from.sizeGiB))
	if err != nil {
		return err
	}
	hash := sha256.New()
	source := io.TeeReader(f, io.MultiWriter(hash, &meter{far: sal.Far(ctx, "read", info.Size())}))
	u := &unpacking{fits: func(bytes int64) error { return j.fits(bytes, from.sizeGiB) }, step: j.step}
	unpacked := u.unpack(ctx, dir, source)
	if unpacked != nil && (from.sha256 == "" || ofHost(unpacked)) {
		return from.isNone(unpacked)
	}
	if _, err := io.Copy(io.Discard, &endingReader{ctx, source}); err != nil { // what is behind the end counts too
		return err
	}
	if sum := hex.EncodeToString(hash.Sum(nil)); from.sha256 != "" && sum != from.sha256 {
		return writ.Errorf(writ.CodeChecksumMismatch, "the %s has the SHA-256 %s, not %s", from.name, sum, from.sha256)
	}
	if unpacked != nil {
		return from.isNone(unpacked)
	}
	if err := j.ours(dir); err != nil {
		return err
	}
	return j.growDisk(dir, from.sizeGiB*gib)
}

// ended returns an error unless an archive has its end, two blocks of zeros. The reader of package tar takes one without as complete.
func ended(f *os.File) (fs.FileInfo, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	end := make([]byte, 2*blockSize)
	if _, err := f.ReadAt(end, max(0, info.Size()-int64(len(end)))); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if info.Size() < int64(len(end)) || len(bytes.Trim(end, "\x00")) > 0 {
		return nil, errors.New("its end is missing")
	}
	return info, nil
}

// isNone says that a file is not what volume.send writes, unless err is about the host, the volume or the context.
func (a archived) isNone(err error) error {
	if ofHost(err) {
		return err
	}
	return writ.Errorf(writ.CodeArgumentsInvalid, "the %s is not an archive that volume.send writes: %w", a.name, err)
}

// endingReader ends with its context.
type endingReader struct {
	ctx context.Context
	io.Reader
}

func (r *endingReader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.Reader.Read(p)
}
