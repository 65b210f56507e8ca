package image

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"writ"
	"writ/sal"
	"writ/sal/catalog"
)

// obtain makes sure that the file of an image is there, and returns its size. Whoever asks for the same digest meanwhile waits and finds
// it.
func (d *Driver) obtain(ctx context.Context, dir string, request sal.Request, args *catalog.ImageFetch) (bytes int64, err error) {
	done, err := d.turn(ctx, args.SHA256)
	if err != nil {
		return 0, err
	}
	defer done()
	to := filepath.Join(dir, content{args.SHA256, args.Format}.file())
	info, err := os.Stat(to)
	if err == nil {
		request.Progress("the node has this content already")
		return info.Size(), nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return 0, sal.HostError("look for the image", err)
	}
	p := &part{Driver: d, to: filepath.Join(dir, args.SHA256+".part"), tag: filepath.Join(dir, args.SHA256+".etag"), args: args, tell: request.Progress}
	if err := p.whole(ctx); err != nil {
		return 0, sal.HostError("fetch "+request.Resource.String(), err)
	}
	if err := d.finish(ctx, p, to); err != nil {
		return 0, sal.HostError("keep "+request.Resource.String(), err)
	}
	info, err = os.Stat(to)
	if err != nil {
		return 0, sal.HostError("look at the image", err)
	}
	return info.Size(), nil
}

// finish checks that what was fetched is of its format, and gives it its name.
func (d *Driver) finish(ctx context.Context, p *part, to string) error {
	from := p.to
	switch p.args.Format {
	case "raw":
		if err := checkRaw(p.to); err != nil {
			return err
		}
	case "oci":
		p.tell("the archive is checked")
		if err := checkArchive(ctx, p.to); err != nil {
			return err
		}
	case "qcow2":
		p.tell("the disk is converted")
		from = p.to[:len(p.to)-len(".part")] + ".raw.part"
		d.step("convert the image")
		if err := d.whileAllowed(ctx, from, p.args.SHA256, func(ctx context.Context) error { return convert(ctx, from, p.to) }); err != nil {
			return err
		}
	}
	d.step("close the file")
	if err := os.Chmod(from, 0o400); err != nil {
		return err
	}
	d.step("name the image")
	if err := os.Rename(from, to); err != nil {
		return err
	}
	for _, left := range []string{p.to, p.tag} {
		if err := os.Remove(left); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return sal.SyncDir(filepath.Dir(to))
}

// part is a file that is being fetched.
type part struct {
	*Driver
	to, tag string // the file, and what the server called its content
	args    *catalog.ImageFetch
	tell    func(string)

	file *os.File
	sum  hash.Hash // of what the file has
	have int64     // bytes of it
	all  int64     // of the whole content, 0 or have if nobody says
	told int64     // when something was last said
	held int64     // when it was last held against what images may occupy
	sewn bool      // it came in several pieces, which may not belong together
}

// whole fetches until the file has the digest that it must have, and is on disk.
func (p *part) whole(ctx context.Context) (err error) {
	p.step("write the image")
	p.file, err = os.OpenFile(p.to, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.file.Close()) }()
	if err := p.reread(ctx); err != nil {
		return err
	}
	err = p.fill(ctx)
	if err == nil && p.sewn && p.digest() != p.args.SHA256 { // of another content, perhaps: once more, from the start
		if err = p.restart(); err == nil {
			err = p.fill(ctx)
		}
	}
	if err != nil {
		return err
	}
	if err := p.allowed(p.have); err != nil {
		return err
	}
	if got := p.digest(); got != p.args.SHA256 {
		if p.local() { // whoever hears the digest of a file of the node can fetch it, and scripts may not read all that we may
			return writ.Errorf(writ.CodeChecksumMismatch, "%s has another SHA-256 than %s", p.args.URL, p.args.SHA256).
				WithHint("`sha256sum` on the node says which")
		}
		return writ.Errorf(writ.CodeChecksumMismatch, "%s has the SHA-256 %s, not %s", p.args.URL, got, p.args.SHA256).
			WithHint("compare it with what the publisher says; it was thrown away")
	}
	p.step("sync the image")
	return p.file.Sync()
}

// local reports whether the image is a file of this node.
func (p *part) local() bool { return strings.HasPrefix(p.args.URL, "file:") }

func (p *part) fill(ctx context.Context) error {
	if p.local() {
		return p.fromFile(ctx)
	}
	return p.fromServer(ctx)
}

func (p *part) digest() string { return hex.EncodeToString(p.sum.Sum(nil)) }

// reread takes the digest of what an earlier try has fetched.
func (p *part) reread(ctx context.Context) error {
	p.sum, p.have = sha256.New(), 0
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		const chunk = 4 << 20
		n, err := io.CopyN(p.sum, p.file, chunk)
		p.have += n
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
	}
	if p.have > 0 {
		p.tell(fmt.Sprintf("going on after %d MiB", p.have>>20))
	}
	p.told, p.sewn = p.have, p.have > 0
	return nil
}

// restart throws away what was fetched.
func (p *part) restart() error {
	if err := p.file.Truncate(0); err != nil {
		return err
	}
	_, err := p.file.Seek(0, io.SeekStart)
	p.sum, p.have, p.told, p.held, p.sewn = sha256.New(), 0, 0, 0, false
	return err
}

// far is how much there is, and of how much if that is known.
func (p *part) far() string {
	if p.all > p.have {
		return fmt.Sprintf("%d of %d MiB", p.have>>20, p.all>>20)
	}
	return fmt.Sprintf("%d MiB", p.have>>20)
}

// Write adds to the file.
func (p *part) Write(b []byte) (int, error) {
	n, err := p.file.Write(b)
	p.sum.Write(b[:n])
	p.have += int64(n)
	const every = 64 << 20 // bytes between two words about progress
	if p.have >= p.told+every {
		p.tell(p.far() + " fetched")
		p.told = p.have
	}
	const often = 16 << 20 // bytes
	if err == nil && p.have >= p.held+often {
		p.held = p.have
		err = p.allowed(p.have)
	}
	if err != nil {
		err = hostError{err}
	}
	return n, err
}

// allowed returns an error if images would occupy more than they may with so many bytes of this one.
func (p *part) allowed(bytes int64) error {
	return p.allows(filepath.Dir(p.to), p.args.SHA256, bytes)
}

// hostError is what went wrong on this host, not on the way to a server.
type hostError struct{ error }

func (e hostError) Unwrap() error { return e.error }

func (p *part) fromFile(ctx context.Context) error {
	u, err := url.Parse(p.args.URL)
	if err != nil {
		return err
	}
	info, err := os.Stat(u.Path) // before it is opened: a pipe waits then, and a device may do anything
	if errors.Is(err, fs.ErrNotExist) {
		return writ.Errorf(writ.CodeNotFound, "the node has no file %s", u.Path).WithHint("copy it there, or say where it can be fetched by https")
	}
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return writ.Errorf(writ.CodeArgumentsInvalid, "%s is no regular file", u.Path)
	}
	if err := p.allowed(info.Size()); err != nil {
		return err
	}
	f, err := os.OpenFile(u.Path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := f.Seek(p.have, io.SeekStart); err != nil {
		return err
	}
	_, err = io.Copy(p, &patient{ctx: ctx, from: f})
	return err
}

// patient reads until its context ends.
type patient struct {
	ctx  context.Context
	from io.Reader
}

func (r *patient) Read(b []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.from.Read(b)
}
