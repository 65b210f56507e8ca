package directory

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"writ"
	"writ/sal"
	"writ/sal/catalog"
)

// backupPath is where an archive is, below root. Names of backups are names of resources and projects are UUIDs; root keeps what is
// neither from leading elsewhere.
func (j *job) backupPath(name string) string {
	return path.Join("backups", string(j.Resource.Project), name+".tar")
}

// partPath is where this volume's archive is while it is being written.
func (j *job) partPath() string {
	return path.Join("backups", string(j.Resource.Project), "."+j.Resource.HostName()+".part")
}

// hasBackup returns an error unless there is such an archive.
func (j *job) hasBackup(name string) error {
	exists, err := j.exists(j.backupPath(name))
	if err != nil {
		return sal.HostError("look for the backup", err)
	}
	if !exists {
		return writ.Errorf(writ.CodeResourceUnknown, "the node has no backup %q of this project", name).WithHint("volume.send makes one")
	}
	return nil
}

// send writes the archive beside its name and gives it the name when it is whole.
func (j *job) send(ctx context.Context, r *sal.Record[own], args *catalog.VolumeSend) (sal.Outcome, error) {
	from := path.Join(j.at, "data")
	if args.Snapshot != "" {
		var err error
		if from, err = j.snapshotPath(j.at, r.Resource, args.Snapshot); err != nil {
			return sal.Outcome{}, err
		}
	}
	if writ.CodeOf(j.hasBackup(args.Backup)) == "" {
		return sal.Outcome{}, backupExists(args.Backup)
	}
	to := j.backupPath(args.Backup)
	part := j.partPath()
	sum, err := j.archive(ctx, part, from)
	if err == nil {
		err = j.name(part, to)
	}
	_ = j.root.Remove(part)
	if errors.Is(err, fs.ErrExist) {
		return sal.Outcome{}, backupExists(args.Backup)
	}
	if err != nil {
		return sal.Outcome{}, sal.HostError("write the backup "+args.Backup, err)
	}
	v, err := j.volume(r)
	return sal.Outcome{Values: catalog.Values(catalog.VolumeSent{Volume: v, Backup: args.Backup, SHA256: sum})}, err
}

func backupExists(name string) error {
	return writ.Errorf(writ.CodeResourceConflict, "the node has a backup %q already", name).WithHint("use another name")
}

// name gives a finished archive its name, which must be free.
func (j *job) name(part, to string) error {
	j.step("name the archive")
	if err := j.root.Link(part, to); err != nil {
		return err
	}
	return j.sync(path.Dir(to))
}

// archive writes a tree as a tar file, as tar(1) would, and returns its SHA-256.
func (j *job) archive(ctx context.Context, to, from string) (sum string, err error) {
	j.step("make backups")
	if err := j.root.MkdirAll(path.Dir(to), 0o700); err != nil {
		return "", err
	}
	for _, dir := range []string{".", "backups"} {
		if err := j.sync(dir); err != nil {
			return "", err
		}
	}
	j.step("write the archive")
	f, err := j.root.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	hash := sha256.New()
	w := tar.NewWriter(io.MultiWriter(f, hash))
	err = fs.WalkDir(j.root.FS(), from, func(name string, d fs.DirEntry, err error) error {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return ignoreGone(err, name, from)
		}
		info, err := d.Info()
		if err != nil {
			return ignoreGone(err, name, from)
		}
		return j.archiveEntry(ctx, w, name, strings.TrimPrefix(strings.TrimPrefix(name, from), "/"), info)
	})
	if err == nil {
		err = w.Close()
	}
	if err == nil {
		err = f.Sync()
	}
	return hex.EncodeToString(hash.Sum(nil)), err
}

func (j *job) archiveEntry(ctx context.Context, w *tar.Writer, from, name string, info fs.FileInfo) error {
	var link string
	var source *os.File
	var err error
	switch info.Mode().Type() {
	case fs.ModeDir:
		name += "/"
		if name == "/" {
			name = "./"
		}
	case fs.ModeSymlink:
		link, err = j.root.Readlink(from)
	case fs.ModeSocket:
		return nil
	case 0:
		source, err = j.root.Open(from)
	default:
		err = fmt.Errorf("%s is neither file, directory nor link", from)
	}
	if err != nil {
		return ignoreGone(err, name, "./")
	}
	header, err := tar.FileInfoHeader(info, link)
	if err != nil {
		return err
	}
	header.Name, header.Uname, header.Gname, header.Format = name, "", "", tar.FormatPAX
	header.AccessTime, header.ChangeTime = time.Time{}, time.Time{}
	if err := w.WriteHeader(header); err != nil || source == nil {
		return err
	}
	defer source.Close()
	if err := j.copyBytes(ctx, w, io.LimitReader(source, header.Size)); err != nil {
		return err
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("%s became shorter while it was read: %w", from, err)
	}
	return nil
}

// receive unpacks an archive into the directory to. Whatever its entries say, nothing is written outside.
func (j *job) receive(ctx context.Context, args *catalog.VolumeReceive, to string) error {
	f, err := j.root.Open(j.backupPath(args.Backup))
	if err != nil {
		return err
	}
	defer f.Close()
	if err := ended(f); err != nil {
		return noArchive(args.Backup, err)
	}
	hash := sha256.New()
	source := io.TeeReader(f, hash)
	if err := j.unpack(ctx, args, tar.NewReader(source), to); err != nil {
		return err
	}
	if err := j.copyBytes(ctx, io.Discard, source); err != nil {
		return err
	}
	if sum := hex.EncodeToString(hash.Sum(nil)); args.SHA256 != "" && sum != args.SHA256 {
		return writ.Errorf(writ.CodeChecksumMismatch, "the backup %q has the SHA-256 %s, not %s", args.Backup, sum, args.SHA256)
	}
	return nil
}

// ended returns an error unless a tar file has its end, two blocks of zeros. The reader of package tar takes one without as complete.
func ended(f *os.File) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	end := make([]byte, 1024)
	if _, err := f.ReadAt(end, max(0, info.Size()-int64(len(end)))); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if info.Size() < int64(len(end)) || len(bytes.Trim(end, "\x00")) > 0 {
		return errors.New("its end is missing")
	}
	return nil
}

func (j *job) unpack(ctx context.Context, args *catalog.VolumeReceive, archive *tar.Reader, to string) error {
	if err := j.root.Mkdir(to, 0o755); err != nil {
		return err
	}
	inside, err := j.root.OpenRoot(to)
	if err != nil {
		return err
	}
	defer inside.Close()
	within := &job{Driver: j.Driver, Request: j.Request, root: inside}
	var dirs []entry
	total := int64(0)
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return noArchive(args.Backup, err)
		}
		total += header.Size
		if err := j.fits(total, args.SizeGiB); err != nil {
			return err
		}
		e := entry{to: path.Clean(header.Name), info: header.FileInfo()}
		if e.info.IsDir() {
			dirs = append(dirs, e)
		}
		if err := within.unpackEntry(ctx, archive, header, e); err != nil {
			return noArchive(args.Backup, err)
		}
	}
	for i := len(dirs) - 1; i >= 0; i-- {
		if err := within.finish(dirs[i]); err != nil {
			return err
		}
	}
	return nil
}

func (j *job) unpackEntry(ctx context.Context, archive *tar.Reader, header *tar.Header, e entry) error {
	if !filepath.IsLocal(e.to) {
		return fmt.Errorf("it has an entry %q", header.Name)
	}
	switch header.Typeflag {
	case tar.TypeDir:
		if e.to == "." {
			return nil
		}
		j.step("make " + e.to)
		return j.root.Mkdir(e.to, 0o700)
	case tar.TypeSymlink:
		j.step("link " + e.to)
		if err := j.root.Symlink(header.Linkname, e.to); err != nil {
			return err
		}
		return j.own(e)
	case tar.TypeReg:
		if err := j.writeFile(ctx, e.to, 0o600, archive); err != nil {
			return err
		}
		return j.finish(e)
	default:
		return fmt.Errorf("its entry %q is neither file, directory nor link", header.Name)
	}
}

// noArchive says that a file in the backup directory is not what volume.send writes, unless err is about the host or the context.
func noArchive(name string, err error) error {
	ofHost := []error{
		context.Canceled, context.DeadlineExceeded,
		syscall.ENOSPC, syscall.EDQUOT, syscall.EIO, syscall.EROFS, syscall.EMFILE, syscall.ENFILE, syscall.EACCES, syscall.EPERM,
	}
	if slices.ContainsFunc(ofHost, func(e error) bool { return errors.Is(err, e) }) {
		return err
	}
	return writ.Errorf(writ.CodeArgumentsInvalid, "the backup %q is not an archive that volume.send writes: %w", name, err)
}
