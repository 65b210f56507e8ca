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

// copying copies a tree into the directory `to`. It copies directories, files, hard and symbolic links and pipes, with
// modes, times, extended attributes and, as root, owners. It skips sockets, which are useless without their process,
// and entries that disappear during the copy.
type copying struct {
	*job
	source *os.Root // symbolic links that are created during the copy cannot lead out of it
	to     string
	walk   *sal.Walk
	linked map[inode]string // first copy of each file with several hard links, relative to the root of the job
}

// inode identifies a file with several hard links.
type inode struct{ device, number uint64 }

// copyOf returns a function that copies a tree or snapshot.
func (j *job) copyOf(from string) func(ctx context.Context, to string) error {
	return func(ctx context.Context, to string) error {
		source, err := j.root.OpenRoot(from)
		if err != nil {
			return err
		}
		defer source.Close()
		c := &copying{job: j, source: source, to: to, linked: map[inode]string{}}
		c.walk = &sal.Walk{
			Root:  source,
			Enter: func(name string, info fs.FileInfo) error { return c.entry(ctx, c.at(name, info)) },
			Leave: func(name string, info fs.FileInfo) error { return c.finish(c.at(name, info)) },
		}
		return c.walk.Run(ctx)
	}
}

// entry is one entry of a tree.
type entry struct {
	from string // relative to the source
	to   string // relative to the root of the job
	info fs.FileInfo
}

func (c *copying) at(name string, info fs.FileInfo) entry {
	return entry{name, path.Join(c.to, name), info}
}

// open opens a file or directory of the source. It does not block if the file was replaced by a pipe.
func (c *copying) open(e entry) (*os.File, error) {
	return c.source.OpenFile(e.from, os.O_RDONLY|syscall.O_NONBLOCK, 0)
}

// entry copies an entry. If the entry is a further hard link to a file that was copied already, it creates a hard link
// to the copy.
func (c *copying) entry(ctx context.Context, e entry) (err error) {
	if stat, ok := e.info.Sys().(*syscall.Stat_t); ok && stat.Nlink > 1 && !e.info.IsDir() {
		id := inode{uint64(stat.Dev), stat.Ino}
		if first, ok := c.linked[id]; ok {
			c.step("link " + e.info.Name())
			return c.root.Link(first, e.to)
		}
		defer func() {
			if err == nil {
				c.linked[id] = e.to
				err = c.walk.Hold(sal.NameMemory(e.to) + int64(unsafe.Sizeof(id)))
			}
		}()
	}
	switch e.info.Mode().Type() {
	case fs.ModeDir:
		c.step("make " + e.info.Name())
		return c.root.Mkdir(e.to, 0o700)
	case fs.ModeSymlink:
		target, err := c.source.Readlink(e.from)
		if err != nil {
			return err
		}
		c.step("link " + e.info.Name())
		if err := c.root.Symlink(target, e.to); err != nil {
			return err
		}
		return c.own(e)
	case fs.ModeSocket:
		return nil
	case fs.ModeNamedPipe:
		c.step("make " + e.info.Name())
		dir, err := c.root.Open(path.Dir(e.to))
		if err != nil {
			return err
		}
		if err := errors.Join(sal.MakePipe(dir, path.Base(e.to)), dir.Close()); err != nil {
			return err
		}
		return c.finish(e)
	case 0:
		source, err := c.open(e)
		if err != nil {
			return err
		}
		defer source.Close()
		if err := c.file(ctx, e.to, source); err != nil {
			return err
		}
		return c.finish(e)
	default:
		return fmt.Errorf("%s is not a file, directory, link or pipe", e.from)
	}
}

// finish copies owner, attributes, mode and time of an entry.
func (c *copying) finish(e entry) error {
	if err := c.own(e); err != nil {
		return err
	}
	// Attributes are copied after the owner, because a change of the owner removes some attributes. They are copied
	// before the mode, which may forbid the access.
	if err := c.attributes(e); err != nil {
		return err
	}
	if err := c.root.Chmod(e.to, e.info.Mode()); err != nil {
		return err
	}
	if err := c.root.Chtimes(e.to, time.Time{}, e.info.ModTime()); err != nil {
		return err
	}
	if !e.info.IsDir() {
		return nil
	}
	return c.sync(e.to)
}

// attributes copies the extended attributes of a file or directory.
func (c *copying) attributes(e entry) error {
	if !e.info.IsDir() && !e.info.Mode().IsRegular() {
		return nil
	}
	from, err := c.open(e)
	if err != nil {
		return err
	}
	defer from.Close()
	to, err := c.root.Open(e.to)
	if err != nil {
		return err
	}
	err = sal.EachAttribute(from, func(name, value string) error { return sal.SetAttribute(to, name, value) })
	return errors.Join(err, to.Close())
}

// own copies the owner, if the node runs as root.
func (c *copying) own(e entry) error {
	if os.Geteuid() != 0 {
		return nil
	}
	if from, ok := e.info.Sys().(*syscall.Stat_t); ok {
		return c.root.Lchown(e.to, int(from.Uid), int(from.Gid))
	}
	return nil
}

// file creates a file and syncs it.
func (c *copying) file(ctx context.Context, to string, from *os.File) (err error) {
	c.step("write " + path.Base(to))
	f, err := c.root.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := sal.CopyFile(ctx, f, from); err != nil {
		return err
	}
	return f.Sync()
}
