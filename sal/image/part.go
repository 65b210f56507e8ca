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
	"net/http"
	"os"
	"strings"

	"writ"
	"writ/internal/ctxio"
	"writ/internal/diskspace"
)

// origin provides the content of a part.
type origin interface {
	// fill fetches the missing bytes.
	fill(ctx context.Context) error
	// mismatch returns the error for content with another digest. It does not reveal the digest to the script, which
	// may name files that its author must not read.
	mismatch(ctx context.Context) error
}

// part is the unfinished file of an image. It survives failed attempts, so that the next attempt resumes.
type part struct {
	*reporter
	budget        budget
	step          func(name string)
	to, tag, made string // paths of the file, of its source (see saveSource) and of its converted form

	file     *os.File
	sum      hash.Hash // digest of the file so far
	have     int64     // bytes in the file
	all      int64     // size of the whole content; 0 or have if unknown
	reported int64     // value of have at the last progress report
	checked  int64     // value of have at the last check of the limit
	joined   bool      // fetched in several requests, whose content may differ
	from     source    // source of the bytes
}

// download fetches the content, verifies that it has the requested digest, and syncs the file.
func (p *part) download(ctx context.Context, from origin) (err error) {
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
	err = from.fill(ctx)
	if err == nil && p.joined && p.digest() != p.args.SHA256 { // possibly mixed content: start again
		if err = p.restart(); err == nil {
			err = from.fill(ctx)
		}
	}
	if err != nil {
		return err
	}
	if p.digest() != p.args.SHA256 { // before fits, whose error reveals the size
		return from.mismatch(ctx)
	}
	if err := p.fits(p.have); err != nil {
		return err
	}
	p.step("sync the image")
	return p.file.Sync()
}

// reread computes the digest of the bytes that an earlier attempt fetched. It discards them if their source is unknown.
func (p *part) reread(ctx context.Context) (err error) {
	p.sum = sha256.New()
	p.have, err = io.Copy(p.sum, &ctxio.Reader{Ctx: ctx, From: p.file})
	if err != nil {
		return err
	}
	if p.have > 0 && p.loadSource() == (source{}) {
		return p.restart()
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

func (p *part) digest() string { return hex.EncodeToString(p.sum.Sum(nil)) }

// otherDigest returns the error for the operator about a wrong digest.
func otherDigest(has, asked string) error {
	return fmt.Errorf("it has the SHA-256 %s, not %s", has, asked)
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

// hostError is an error of this host, not of the connection to a server.
type hostError struct{ error }

func (e hostError) Unwrap() error { return e.error }

// progressText formats the progress, with the total if it is known.
func (p *part) progressText() string {
	if p.all > p.have {
		return fmt.Sprintf("%d of %d MiB", p.have>>20, p.all>>20)
	}
	return fmt.Sprintf("%d MiB", p.have>>20)
}

// fits returns QUOTA_EXCEEDED if images exceed their limit once this image occupies bytes.
func (p *part) fits(bytes int64) error { return p.budget.checkBytes(p.to, bytes) }

// expect gets the number of bytes that follow, or -1 if it is unknown. It returns an error if the disk has no room for
// these bytes, or if images would exceed their limit.
func (p *part) expect(bytes int64) error {
	p.all = p.have + max(bytes, 0)
	if err := p.fitsDisk(bytes); err != nil {
		return err
	}
	if _, free, err := diskspace.Of(p.to); err == nil && bytes > free {
		return writ.Errorf(writ.CodeDiskFull, "%s needs %d MiB more, and the node's disk has %d MiB free", p.args.URL,
			bytes>>20, free>>20).
			WithHint("free space on the node's disk; the call is retried")
	}
	return p.fits(p.all)
}

// fitsDisk returns an error if the disk would be too small for the bytes even when empty. Such a fetch is not retried.
// The check comes before anything is written, because a write to a full disk fails with an error that is retried.
func (p *part) fitsDisk(bytes int64) error {
	if total, _, err := diskspace.Of(p.to); err == nil && bytes > total {
		return writ.Errorf(writ.CodeDriverRefused, "%s needs %d MiB more, and the node's disk has only %d MiB in total",
			p.args.URL, bytes>>20, total>>20).
			WithHint("use a smaller image, or a node with a larger disk")
	}
	return nil
}

// remove removes the files of a part that became an image.
func (p *part) remove() error {
	p.step("remove the file")
	for _, left := range []string{p.to, p.tag, p.made} {
		if err := os.Remove(left); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// source identifies the origin of a part's bytes, after all redirects.
type source struct {
	at, query string
	tag       string // strong ETag, "" if none
}

func sourceOf(answer *http.Response) source {
	s := source{tag: answer.Header.Get("ETag")}
	if strings.HasPrefix(s.tag, "W/") || strings.ContainsAny(s.tag, "\r\n") {
		s.tag = ""
	}
	if answer.Request != nil && answer.Request.URL != nil {
		u := answer.Request.URL
		s.at, s.query = u.Scheme+"://"+u.Host+u.EscapedPath(), u.RawQuery
	}
	return s
}

// continues reports whether bytes from the source `next` may be appended to bytes from s. Without this check, the first
// server could redirect the next request to another server, and use the digest to guess the content there. The query
// may differ if the ETag is the same, because signatures in queries change with each answer.
func (s source) continues(next source) bool {
	return s.at != "" && s.at == next.at && (s.query == next.query || s.tag != "" && s.tag == next.tag)
}

// saveSource stores the source of a part.
func (p *part) saveSource(from source) error {
	p.from = from
	p.step("note the tag")
	return os.WriteFile(p.tag, []byte(strings.Join([]string{p.args.URL, from.at, from.query, from.tag}, "\n")), 0o600)
}

// loadSource returns the stored source of a part, or the zero value if it is unknown.
func (p *part) loadSource() source {
	text, err := os.ReadFile(p.tag)
	fields := strings.Split(string(text), "\n")
	if err != nil || len(fields) != 4 || fields[0] != p.args.URL {
		return source{}
	}
	return source{at: fields[1], query: fields[2], tag: fields[3]}
}
