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

	"writ"
	"writ/internal/ctxio"
	"writ/sal"
	"writ/sal/catalog"
)

// backupContent returns the filling for volume.receive.
func (j *job) backupContent(args *catalog.VolumeReceive) (filling, error) {
	_, err := os.Stat(j.backups.path(args.Backup))
	if errors.Is(err, fs.ErrNotExist) {
		return filling{}, writ.Errorf(writ.CodeResourceUnknown, "the node has no backup %q of this project",
			args.Backup).
			WithHint("create one with volume.send")
	}
	if err != nil {
		return filling{}, sal.HostError("look for the backup", err)
	}
	return filling{sizeGiB: args.SizeGiB, into: func(ctx context.Context, _ *record) error {
		f, err := os.Open(j.backups.path(args.Backup))
		if err != nil {
			return err
		}
		from := archived{name: fmt.Sprintf("backup %q", args.Backup), sizeGiB: args.SizeGiB, sha256: args.SHA256}
		return errors.Join(j.receive(ctx, f, from), f.Close())
	}}, nil
}

// archived describes the archive of a new volume.
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
	u := &unpacking{fits: func(bytes int64) error { return fits(j.Resource, bytes, from.sizeGiB) }, step: j.step}
	unpacked := u.unpack(ctx, dir, source)
	if unpacked != nil && (from.sha256 == "" || isHostError(unpacked)) {
		return from.asInvalid(unpacked)
	}
	if _, err := io.Copy(io.Discard, &ctxio.Reader{Ctx: ctx, From: source}); err != nil { // for the digest
		return err
	}
	if sum := hex.EncodeToString(hash.Sum(nil)); from.sha256 != "" && sum != from.sha256 {
		return writ.Errorf(writ.CodeChecksumMismatch, "the %s has the SHA-256 %s, not %s", from.name, sum, from.sha256)
	}
	if unpacked != nil {
		return from.asInvalid(unpacked)
	}
	return j.disk(dir).claim(from.sizeGiB * gib)
}

// checkEnd returns an error if an archive lacks its end, two blocks of zeros. Package archive/tar accepts an archive
// without its end as complete.
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
