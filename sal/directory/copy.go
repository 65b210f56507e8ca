package directory

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"syscall"
	"time"
	"unsafe"

	"writ/sal"
)

// build creates a tree at a path below root, and renames it into place when it is complete.
func (j *job) build(ctx context.Context, to string, into func(ctx context.Context, to string) error) error {
	if err := j.prepare(ctx, into); err != nil {
		return err
	}
	return j.place(to)
}

// prepare creates a tree at work/new. It replaces the remains of a crash.
func (j *job) prepare(ctx context.Context, into func(ctx context.Context, to string) error) error {
	work := path.Join(j.at, "work")
	j.step("clear work")
	if err := j.root.RemoveAll(work); err != nil {
		return err
	}
	j.step("make work")
	if err := j.root.MkdirAll(work, 0o700); err != nil {
		return err
	}
	for _, dir := range []string{".", path.Dir(j.at), j.at} { // these may be new
		if err := j.sync(dir); err != nil {
			return err
		}
	}
	if err := into(ctx, path.Join(work, "new")); err != nil {
		return err
	}
	return errors.Join(j.sync(path.Join(work, "new")), ctx.Err())
}

// place renames work/new to its final path.
func (j *job) place(to string) error {
	j.step("make room")
	if err := j.root.MkdirAll(path.Dir(to), 0o700); err != nil {
		return err
	}
	j.step("put it in place")
	if err := j.root.Rename(path.Join(j.at, "work", "new"), to); err != nil {
		return err
	}
	if err := j.sync(j.at); err != nil {
		return err
	}
	return j.sync(path.Dir(to))
}

// sync syncs a directory.
func (j *job) sync(dir string) error {
	j.step("sync " + path.Base(dir))
	f, err := j.root.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// copyOf returns a function that copies a tree: directories, files, links of both kinds and pipes, with modes, times,
// extended attributes and, as root, owners. It skips sockets, which are useless without their process, and entries that
// disappear during the copy.
func (j *job) copyOf(from string) func(ctx context.Context, to string) error {
	return func(ctx context.Context, to string) error {
		source, err := j.root.OpenRoot(from) // links created meanwhile must not lead to another tree
		if err != nil {
			return err
		}
		defer source.Close()
		at := func(name string, info fs.FileInfo) entry {
			return entry{source: source, from: name, to: path.Join(to, name), info: info}
		}
		walk := &sal.Walk{Root: source}
		linked := links{walk: walk, first: map[inode]string{}}
		walk.Enter = func(name string, info fs.FileInfo) error { return j.copyEntry(ctx, at(name, info), linked) }
		walk.Leave = func(name string, info fs.FileInfo) error { return j.finish(at(name, info)) }
		return walk.Run(ctx)
	}
}

// entry is one entry of a tree.
type entry struct {
	source *os.Root // root of the source tree
	from   string   // relative to source
	to     string
	info   fs.FileInfo
}

// open opens a file or directory for reading. It does not block if the file was replaced by a pipe.
func (e *entry) open() (*os.File, error) {
	return e.source.OpenFile(e.from, os.O_RDONLY|syscall.O_NONBLOCK, 0)
}

// inode identifies a file with several names.
type inode struct{ device, number uint64 }

// links holds the first copied name of each file with several names.
type links struct {
	walk  *sal.Walk
	first map[inode]string
}

// add records the name of a copied file. The walk limits how many there are.
func (l links) add(id inode, name string) error {
	l.first[id] = name
	return l.walk.Hold(sal.NameMemory(name) + int64(unsafe.Sizeof(id)))
}

// copyEntry copies an entry. A further name of a file that was copied already becomes a hard link.
func (j *job) copyEntry(ctx context.Context, e entry, linked links) (err error) {
	if stat, ok := e.info.Sys().(*syscall.Stat_t); ok && stat.Nlink > 1 && !e.info.IsDir() {
		id := inode{uint64(stat.Dev), stat.Ino}
		if first, ok := linked.first[id]; ok {
			j.step("link " + e.info.Name())
			return j.root.Link(first, e.to)
		}
		defer func() {
			if err == nil {
				err = linked.add(id, e.to)
			}
		}()
	}
	switch e.info.Mode().Type() {
	case fs.ModeDir:
		j.step("make " + e.info.Name())
		return j.root.Mkdir(e.to, 0o700)
	case fs.ModeSymlink:
		target, err := e.source.Readlink(e.from)
		if err != nil {
			return err
		}
		j.step("link " + e.info.Name())
		if err := j.root.Symlink(target, e.to); err != nil {
			return err
		}
		return j.own(e)
	case fs.ModeSocket:
		return nil
	case fs.ModeNamedPipe:
		j.step("make " + e.info.Name())
		dir, err := j.root.Open(path.Dir(e.to))
		if err != nil {
			return err
		}
		if err := errors.Join(sal.MakePipe(dir, path.Base(e.to)), dir.Close()); err != nil {
			return err
		}
		return j.finish(e)
	case 0:
		source, err := e.open()
		if err != nil {
			return err
		}
		defer source.Close()
		if err := j.copyFile(ctx, e.to, source); err != nil {
			return err
		}
		return j.finish(e)
	default:
		return fmt.Errorf("%s is not a file, directory, link or pipe", e.from)
	}
}

// finish copies owner, attributes, mode and time of an entry.
func (j *job) finish(e entry) error {
	if err := j.own(e); err != nil {
		return err
	}
	if err := j.attributes(e); err != nil { // changing the owner removes some; the mode may forbid them
		return err
	}
	if err := j.root.Chmod(e.to, e.info.Mode()); err != nil {
		return err
	}
	if err := j.root.Chtimes(e.to, time.Time{}, e.info.ModTime()); err != nil {
		return err
	}
	if !e.info.IsDir() {
		return nil
	}
	return j.sync(e.to)
}

// attributes copies the extended attributes of a file or directory.
func (j *job) attributes(e entry) error {
	if !e.info.IsDir() && !e.info.Mode().IsRegular() {
		return nil
	}
	from, err := e.open()
	if err != nil {
		return err
	}
	defer from.Close()
	to, err := j.root.Open(e.to)
	if err != nil {
		return err
	}
	err = sal.EachAttribute(from, func(name, value string) error { return sal.SetAttribute(to, name, value) })
	return errors.Join(err, to.Close())
}

// own copies the owner, if the node runs as root.
func (j *job) own(e entry) error {
	if os.Geteuid() != 0 {
		return nil
	}
	if from, ok := e.info.Sys().(*syscall.Stat_t); ok {
		return j.root.Lchown(e.to, int(from.Uid), int(from.Gid))
	}
	return nil
}

// copyFile creates a file and syncs it.
func (j *job) copyFile(ctx context.Context, to string, from *os.File) (err error) {
	j.step("write " + path.Base(to))
	f, err := j.root.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := sal.CopyFile(ctx, f, from); err != nil {
		return err
	}
	return f.Sync()
}
