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
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"writ"
	"writ/internal/ociarchive"
	"writ/sal"
	"writ/sal/catalog"
)

// obtain makes sure that the file of an image is there, and records that. Whoever asks for the same content in the same project meanwhile
// waits and finds it. That another project has it changes nothing: it is fetched all the same, and takes the place of what was there.
func (d *Driver) obtain(ctx context.Context, r *sal.Record[own], request sal.Request, args *catalog.ImageFetch) error {
	c := contentOf(r)
	done, err := d.turn(ctx, c.stem())
	if err != nil {
		return err
	}
	defer done()
	if has, err := d.has(c); err != nil {
		return err
	} else if has {
		err := d.publish(ctx, r, "")
		if !errors.Is(err, fs.ErrNotExist) { // else it is gone, whoever took it
			request.Progress("the project has this content on the node already")
			return sal.HostError("look for the image", err)
		}
	}
	name, tag, made := c.begun()
	p := &part{
		Driver: d, to: filepath.Join(r.Own.Dir, name), tag: filepath.Join(r.Own.Dir, tag), made: filepath.Join(r.Own.Dir, made),
		args: args, call: request,
	}
	if err := p.whole(ctx); err != nil {
		return sal.HostError("fetch "+request.Resource.String(), err)
	}
	from, err := d.finish(ctx, p)
	if err == nil {
		err = d.publish(ctx, r, from)
	}
	if err == nil {
		err = p.forget()
	}
	return sal.HostError("keep "+request.Resource.String(), err)
}

// finish checks that what was fetched is of its format, and returns the file that the image is.
func (d *Driver) finish(ctx context.Context, p *part) (from string, err error) {
	from = p.to
	switch p.args.Format {
	case "raw":
		if err := checkRaw(p.to); err != nil {
			return "", err
		}
	case "oci":
		p.tell("the archive is checked")
		if err := checkArchive(ctx, p.to); err != nil {
			return "", err
		}
	case "qcow2":
		p.tell("the disk is converted")
		from = p.made
		if err := p.whileAllowed(ctx, p.convert); err != nil {
			return "", err
		}
	}
	d.step("close the file")
	return from, os.Chmod(from, 0o400)
}

// publish gives a file the name that the image has, and records that it is there: at once, so that nobody finds a file without an image. If
// there is none to be named it must have its name already.
func (d *Driver) publish(ctx context.Context, r *sal.Record[own], from string) error {
	done, err := d.turn(ctx, contentOf(r).sha256)
	if err != nil {
		return err
	}
	defer done()
	if from != "" {
		d.step("name the image")
		if err := os.Rename(from, pathOf(r)); err != nil {
			return err
		}
		if err := sal.SyncDir(r.Own.Dir); err != nil {
			return err
		}
	}
	info, err := os.Stat(pathOf(r))
	if err != nil {
		return err
	}
	r.Own.Phase, r.Own.Bytes = ready, info.Size()
	r.Generation++
	return d.records().Put(r)
}

// part is a file that is being fetched.
type part struct {
	*Driver
	to, tag, made string // the file, where it is from, and what is made of it
	args          *catalog.ImageFetch
	call          sal.Request

	file *os.File
	sum  hash.Hash // of what the file has
	have int64     // bytes of it
	all  int64     // of the whole content, 0 or have if nobody says
	told int64     // when something was last said
	held int64     // when it was last held against what images may occupy
	sewn bool      // it came in several pieces, which may not belong together
	from source    // where it comes from
	// inside says that servers were asked which only the operator's word opens. Nothing is told then but that it failed.
	inside atomic.Bool
}

// tell says how far the work is.
func (p *part) tell(text string) {
	if !p.inside.Load() {
		p.call.Progress(text)
	}
}

// refuse returns the error about an image that is not fetched, and tells the operator why. Scripts cause that as often as they like, so it is told once
// in a while of each kind, which is a word of this program, and of each project: none hides what is in the way of another one.
func (p *part) refuse(ctx context.Context, kind string, why error, e *writ.Error) error {
	if p.Log == nil {
		return e
	}
	if times, say := p.lines.Say(kind+" "+string(p.call.Resource.Project), time.Now()); say {
		p.Log.WarnContext(ctx, "fetch an image", "image", p.call.Resource.String(), "url", p.args.URL, "code", e.Code, "times", times, "err", why)
	}
	return e
}

// forget removes what is left of a part that became an image.
func (p *part) forget() error {
	p.step("remove the file")
	for _, left := range []string{p.to, p.tag, p.made} {
		if err := os.Remove(left); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// whole fetches until the file has the digest that it must have, and is on disk.
func (p *part) whole(ctx context.Context) (err error) {
	p.step("write the image")
	_ = os.Chmod(p.to, 0o600) // an earlier attempt may have closed it
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
	if p.digest() != p.args.SHA256 { // before its size is looked at, which is told of nothing else
		return p.mismatch(ctx)
	}
	if err := p.fits(p.have); err != nil {
		return err
	}
	p.step("sync the image")
	return p.file.Sync()
}

// mismatch is the error about content that is another one than was asked for. Which one it is nobody hears: a script may name what it may not
// read.
func (p *part) mismatch(ctx context.Context) error {
	why := otherDigest(p.digest(), p.args.SHA256)
	if p.local() { // it was written to after it was read for its digest
		return p.notGivenOut(ctx, why)
	}
	if p.inside.Load() {
		if err := p.restart(); err != nil {
			return err
		}
		return p.unreachable(ctx, why, p.waste(ctx))
	}
	return p.refuse(ctx, "digest", why, writ.Errorf(writ.CodeChecksumMismatch, "the content of %s has another SHA-256 than %s", p.args.URL, p.args.SHA256).
		WithHint("compare it with what the publisher says; it was thrown away, and the node's log says what it was"))
}

// otherDigest says for the operator why content is not the one that was asked for.
func otherDigest(has, asked string) error {
	return fmt.Errorf("it has the SHA-256 %s, not %s", has, asked)
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

// reread takes the digest of what an earlier attempt has fetched.
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
	if p.have > 0 && (p.local() || p.noted() == source{}) {
		return p.restart() // nobody knows where it is from
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
		err = p.fits(p.have)
	}
	if err != nil {
		err = hostError{err}
	}
	return n, err
}

// fits returns an error if images would occupy more than they may with so many bytes of this one.
func (p *part) fits(bytes int64) error {
	return p.allows(filepath.Dir(p.to), filepath.Base(p.to), bytes)
}

// hostError is what went wrong on this host, not on the way to a server.
type hostError struct{ error }

func (e hostError) Unwrap() error { return e.error }

// checkArchive refuses what is no OCI archive, or not whole.
func checkArchive(ctx context.Context, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	return ociarchive.Check(ctx, f)
}
