package image

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"writ"
)

const (
	// stall is how long a server may be silent.
	stall = time.Minute
	// attempts is how often in a row a server may break off without having sent anything.
	attempts = 4
	// pause is the usual one: see Driver.
	pause = 500 * time.Millisecond
)

// errBroken is that of a connection that ended too early.
var errBroken = errors.New("the server broke off")

// fromServer fetches what is missing, and goes on when the connection breaks for as long as something comes.
func (p *part) fromServer(ctx context.Context) error {
	for wait, futile := cmp.Or(p.Pause, pause), 0; ; {
		before := p.have
		err := p.request(ctx)
		if !errors.Is(err, errBroken) {
			return err
		}
		if p.have > before {
			wait, futile = cmp.Or(p.Pause, pause), 0
		}
		if futile++; futile >= attempts {
			return writ.Errorf(writ.CodeUnreachable, "cannot fetch %s: %w", p.args.URL, err).
				WithHint("look whether the node reaches the server; what it has, %d MiB, is kept and the call is tried again", p.have>>20)
		}
		p.tell(fmt.Sprintf("%v after %d MiB; trying again", err, p.have>>20))
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		case <-timer.C:
		}
		wait *= 2
	}
}

// request asks the server once for what is missing. Whatever is worth another try is errBroken.
func (p *part) request(parent context.Context) error {
	ctx, cancel := context.WithCancel(parent)
	defer cancel()
	watch := time.AfterFunc(stall, cancel)
	defer watch.Stop()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, p.args.URL, nil)
	if err != nil {
		return writ.Errorf(writ.CodeArgumentsInvalid, "%s is no address: %w", p.args.URL, err)
	}
	request.Header.Set("Accept-Encoding", "identity") // a range of a compressed answer would be one of other bytes
	if p.have > 0 {
		request.Header.Set("Range", fmt.Sprintf("bytes=%d-", p.have))
		if tag, err := os.ReadFile(p.tag); err == nil {
			if of, etag, ok := strings.Cut(string(tag), "\n"); ok && of == p.args.URL {
				request.Header.Set("If-Range", etag)
			}
		}
	}
	answer, err := p.client().Do(request)
	if err != nil {
		return broken(parent, err)
	}
	defer answer.Body.Close()
	if again, err := p.begin(answer); err != nil || again {
		return err
	}
	_, err = io.Copy(p, &lively{answer.Body, watch})
	if host, ok := errors.AsType[hostError](err); ok {
		return host
	}
	if err != nil {
		return broken(parent, err)
	}
	return nil
}

// begin looks at how a server answers, and reports whether there is nothing to read.
func (p *part) begin(answer *http.Response) (nothing bool, err error) {
	switch code := answer.StatusCode; {
	case code == http.StatusPartialContent && startsAt(answer, p.have):
		p.sewn = true
		return false, p.expect(answer.ContentLength)
	case code == http.StatusOK:
		if err := p.restart(); err != nil {
			return false, hostError{err}
		}
		if err := p.note(answer.Header.Get("ETag")); err != nil {
			return false, hostError{err}
		}
		return false, p.expect(answer.ContentLength)
	case code == http.StatusRequestedRangeNotSatisfiable && p.digest() == p.args.SHA256:
		return true, nil // it was fetched to its end already
	case code == http.StatusRequestedRangeNotSatisfiable, code == http.StatusPartialContent:
		if err := p.restart(); err != nil {
			return false, hostError{err}
		}
		return false, fmt.Errorf("%w: it has other content now", errBroken)
	case code == http.StatusNotFound || code == http.StatusGone:
		return false, writ.Errorf(writ.CodeNotFound, "the server has nothing at %s: %s", p.args.URL, answer.Status)
	case code >= 500 || code == http.StatusTooManyRequests || code == http.StatusRequestTimeout:
		return false, fmt.Errorf("%w: %s", errBroken, answer.Status)
	default:
		return false, writ.Errorf(writ.CodeArgumentsInvalid, "the server does not give out %s: %s", p.args.URL, answer.Status)
	}
}

// startsAt reports whether an answer has the range from an offset on.
func startsAt(answer *http.Response, offset int64) bool {
	unit, rest, _ := strings.Cut(answer.Header.Get("Content-Range"), " ")
	first, _, _ := strings.Cut(rest, "-")
	n, err := strconv.ParseInt(first, 10, 64)
	return unit == "bytes" && err == nil && n == offset
}

// note keeps what the server calls its content, for If-Range. Only a strong tag is good for that.
func (p *part) note(etag string) error {
	p.step("note the tag")
	if etag == "" || strings.HasPrefix(etag, "W/") {
		if err := os.Remove(p.tag); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	return os.WriteFile(p.tag, []byte(p.args.URL+"\n"+etag), 0o600)
}

// expect is told how many more bytes a server says it has, -1 if it does not. It refuses at once what the disk has no room for.
func (p *part) expect(bytes int64) error {
	p.all = p.have + max(bytes, 0)
	if free, known := room(p.to); known && bytes > free {
		return writ.Errorf(writ.CodeDiskFull, "%s has %d MiB more, and the node's disk has room for %d", p.args.URL, bytes>>20, free>>20).
			WithHint("free room on the node's disk; the call is tried again")
	}
	return p.allowed(p.all)
}

// room is how many bytes the disk has room for that a file is on.
func room(path string) (free int64, known bool) {
	var stat unix.Statfs_t
	if err := unix.Statfs(path, &stat); err != nil {
		return 0, false
	}
	return int64(stat.Bavail) * int64(stat.Bsize), true
}

// broken says why a connection ended, unless that is the caller's own will.
func broken(parent context.Context, err error) error {
	if parent.Err() != nil {
		return parent.Err()
	}
	if errors.Is(err, errInsecure) {
		return writ.Errorf(writ.CodeArgumentsInvalid, "%w", err)
	}
	if errors.Is(err, context.Canceled) {
		return fmt.Errorf("%w: it said nothing for %v", errBroken, stall)
	}
	return fmt.Errorf("%w: %v", errBroken, err)
}

// lively reads from a server that may not be silent for long.
type lively struct {
	from  io.Reader
	watch *time.Timer
}

func (r *lively) Read(b []byte) (int, error) {
	n, err := r.from.Read(b)
	r.watch.Reset(stall)
	return n, err
}

// errInsecure is that of a server which leads from https to http.
var errInsecure = errors.New("the server leads to an address without https")

func (d *Driver) client() *http.Client {
	if d.HTTP != nil {
		return d.HTTP
	}
	return &http.Client{CheckRedirect: secure}
}

func secure(next *http.Request, before []*http.Request) error {
	if next.URL.Scheme != "https" {
		return errInsecure
	}
	if len(before) >= 10 {
		return errors.New("the server leads in circles")
	}
	return nil
}
