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

// obtain makes the file of an image available and records it. Concurrent calls for the same content in one project wait
// for the first. A file of another project is not reused: the content is fetched again and replaces that file.
func (d *Driver) obtain(ctx context.Context, r *sal.Record[own], request sal.Request, args *catalog.ImageFetch) error {
	c := contentOf(r)
	done, err := d.lock(ctx, c.stem())
	if err != nil {
		return err
	}
	defer done()
	if has, err := d.has(c); err != nil {
		return err
	} else if has {
		err := d.publish(ctx, r, "")
		if !errors.Is(err, fs.ErrNotExist) { // otherwise the file was removed meanwhile
			request.Progress("the project already has this content on the node")
			return sal.HostError("find the image", err)
		}
	}
	name, tag, made := c.begun()
	p := &part{
		Driver: d, to: filepath.Join(r.Own.Dir, name), tag: filepath.Join(r.Own.Dir, tag),
		made: filepath.Join(r.Own.Dir, made),
		args: args, call: request,
	}
	if err := p.download(ctx); err != nil {
		return sal.HostError("fetch "+request.Resource.String(), err)
	}
	from, err := d.finish(ctx, p)
	if err == nil {
		err = d.publish(ctx, r, from)
	}
	if err == nil {
		err = p.forget()
	}
	return sal.HostError("store "+request.Resource.String(), err)
}

// finish verifies the format of the fetched file, converts it if necessary, and returns the path of the result.
func (d *Driver) finish(ctx context.Context, p *part) (from string, err error) {
	from = p.to
	switch p.args.Format {
	case "raw":
		if err := checkRaw(p.to); err != nil {
			return "", err
		}
	case "oci":
		p.tell("checking the archive")
		if err := checkArchive(ctx, p.to); err != nil {
			return "", err
		}
	case "qcow2":
		p.tell("converting the disk")
		from = p.made
		if err := p.convertWithinLimit(ctx, p.convert); err != nil {
			return "", err
		}
	}
	d.step("close the file")
	return from, os.Chmod(from, 0o400)
}

// publish renames the file from to the name of the image and records it under the same lock, so that no other call sees
// a file without an image. If from is empty, the image must have its file already.
func (d *Driver) publish(ctx context.Context, r *sal.Record[own], from string) error {
	done, err := d.lock(ctx, contentOf(r).sha256)
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
	to, tag, made string // the file, its source, and its converted form
	args          *catalog.ImageFetch
	call          sal.Request

	file     *os.File
	sum      hash.Hash // digest of the file so far
	have     int64     // bytes in the file
	all      int64     // size of the whole content; 0 or have if unknown
	reported int64     // value of have at the last progress report
	checked  int64     // value of have at the last check of the limit
	joined   bool      // fetched in several requests, whose content may differ
	from     source    // source of the bytes
	// inside means that servers were asked that only the operator's configuration opens. Errors and progress then
	// reveal no details.
	inside atomic.Bool
}

// tell reports progress.
func (p *part) tell(text string) {
	if !p.inside.Load() {
		p.call.Progress(text)
	}
}

// refuse logs why an image was not fetched, for the operator, and returns the error for the script. Scripts can cause
// such errors at any rate, so each kind is logged only once in a while per project. One project cannot hide the log
// lines of another.
func (p *part) refuse(ctx context.Context, kind string, why error, e *writ.Error) error {
	if p.Log == nil {
		return e
	}
	if times, say := p.lines.Say(kind+" "+string(p.call.Resource.Project), time.Now()); say {
		p.Log.WarnContext(ctx, "fetch an image", "image", p.call.Resource.String(), "url", p.args.URL, "code", e.Code,
			"times", times, "err", why)
	}
	return e
}

// forget removes the files of a part that became an image.
func (p *part) forget() error {
	p.step("remove the file")
	for _, left := range []string{p.to, p.tag, p.made} {
		if err := os.Remove(left); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// download fetches until the file has the requested digest, and syncs it.
func (p *part) download(ctx context.Context) (err error) {
	p.step("write the image")
	_ = os.Chmod(p.to, 0o600) // an earlier attempt may have made it read-only
	p.file, err = os.OpenFile(p.to, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.file.Close()) }()
	if err := p.reread(ctx); err != nil {
		return err
	}
	err = p.fill(ctx)
	if err == nil && p.joined && p.digest() != p.args.SHA256 { // possibly mixed content: start again
		if err = p.restart(); err == nil {
			err = p.fill(ctx)
		}
	}
	if err != nil {
		return err
	}
	if p.digest() != p.args.SHA256 { // first, because fits reveals the size
		return p.mismatch(ctx)
	}
	if err := p.fits(p.have); err != nil {
		return err
	}
	p.step("sync the image")
	return p.file.Sync()
}

// mismatch returns the error for content with another digest. It does not reveal the digest to the script, which may
// name files that its author must not read.
func (p *part) mismatch(ctx context.Context) error {
	why := otherDigest(p.digest(), p.args.SHA256)
	if p.local() { // the file changed after its digest was verified
		return p.fileUnavailable(ctx, why)
	}
	if p.inside.Load() {
		if err := p.restart(); err != nil {
			return err
		}
		return p.unreachable(ctx, why, p.waitAsUnreachable(ctx))
	}
	return p.refuse(ctx, "digest", why,
		writ.Errorf(writ.CodeChecksumMismatch, "the SHA-256 of %s is not %s", p.args.URL, p.args.SHA256).
			WithHint("compare it with the publisher's; the content was discarded, and the node's log has its SHA-256"))
}

// otherDigest returns the error for the operator about a wrong digest.
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

// reread computes the digest of the bytes that an earlier attempt fetched.
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
	if p.have > 0 && (p.local() || p.loadSource() == source{}) {
		return p.restart() // the source is unknown
	}
	if p.have > 0 {
		p.tell(fmt.Sprintf("resuming after %d MiB", p.have>>20))
	}
	p.reported, p.joined = p.have, p.have > 0
	return nil
}

// restart discards the fetched bytes.
func (p *part) restart() error {
	if err := p.file.Truncate(0); err != nil {
		return err
	}
	_, err := p.file.Seek(0, io.SeekStart)
	p.sum, p.have, p.reported, p.checked, p.joined = sha256.New(), 0, 0, 0, false
	return err
}

// progressText formats the progress, with the total if it is known.
func (p *part) progressText() string {
	if p.all > p.have {
		return fmt.Sprintf("%d of %d MiB", p.have>>20, p.all>>20)
	}
	return fmt.Sprintf("%d MiB", p.have>>20)
}

// Write appends to the file.
func (p *part) Write(b []byte) (int, error) {
	n, err := p.file.Write(b)
	p.sum.Write(b[:n])
	p.have += int64(n)
	const every = 64 << 20 // bytes between two progress reports
	if p.have >= p.reported+every {
		p.tell(p.progressText() + " fetched")
		p.reported = p.have
	}
	const often = 16 << 20 // bytes
	if err == nil && p.have >= p.checked+often {
		p.checked = p.have
		err = p.fits(p.have)
	}
	if err != nil {
		err = hostError{err}
	}
	return n, err
}

// fits returns QUOTA_EXCEEDED if images exceed their limit once this image occupies bytes.
func (p *part) fits(bytes int64) error {
	return p.checkLimit(filepath.Dir(p.to), filepath.Base(p.to), bytes)
}

// hostError is an error of this host, not of the connection to a server.
type hostError struct{ error }

func (e hostError) Unwrap() error { return e.error }

// checkArchive rejects files that are not complete OCI archives.
func checkArchive(ctx context.Context, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	return ociarchive.Check(ctx, f)
}
