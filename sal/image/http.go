package image

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"writ"
	"writ/internal/sleep"
)

const (
	// stall limits how long a server may take for the first byte and for each further leastBytes. A server that sends
	// bytes very slowly occupies a slot of the node just like a silent one.
	stall      = time.Minute
	leastBytes = 64 << 10
	// attempts limits the consecutive requests without any data.
	attempts = 4
	// pause is the default of Driver.Pause.
	pause = 500 * time.Millisecond
)

// errStalled is the error for a server that is too slow. The request is not repeated at once, because it would take
// just as long.
var errStalled = errors.New("the server is too slow")

// errBroken is the error for a server that could not be reached or did not send the whole answer.
var errBroken = errors.New("the server broke off")

// fromServer fetches the missing bytes. It repeats broken requests as long as data arrives.
func (p *part) fromServer(ctx context.Context) error {
	client := p.client()
	defer client.CloseIdleConnections()
	for wait, futile := cmp.Or(p.Pause, pause), 0; ; {
		before := p.have
		err := p.request(ctx, client)
		if err != nil && p.inside.Load() && ctx.Err() == nil && !errors.Is(err, errBroken) {
			err = fmt.Errorf("%w: %w", errBroken, err) // any failure looks like a silent server
		}
		if !errors.Is(err, errBroken) {
			return err
		}
		if errors.Is(err, errStalled) && p.have-before < leastBytes {
			return p.unreachable(ctx, err, nil)
		}
		if p.have > before {
			wait, futile = cmp.Or(p.Pause, pause), 0
		}
		if futile++; futile >= attempts {
			return p.unreachable(ctx, err, nil)
		}
		p.tell(fmt.Sprintf("%v after %d MiB; retrying", errBroken, p.have>>20))
		if err := sleep.For(ctx, wait); err != nil {
			return err
		}
		wait *= 2
	}
}

// waitAsUnreachable waits as long as fromServer would for a server that never answers.
func (p *part) waitAsUnreachable(ctx context.Context) error {
	for wait, futile := cmp.Or(p.Pause, pause), 1; futile < attempts; futile++ {
		if err := sleep.For(ctx, wait); err != nil {
			return err
		}
		wait *= 2
	}
	return nil
}

// unreachable returns the single error for all failures of a server, or ended if the context ended. Whether a name
// resolves, a port is open or a server speaks another protocol is only logged for the node's operator.
func (p *part) unreachable(ctx context.Context, why, ended error) error {
	if ended != nil {
		return ended
	}
	kept := ""
	if p.have > 0 && !p.inside.Load() {
		kept = fmt.Sprintf("; the %d MiB fetched so far are kept, and the call is retried", p.have>>20)
	}
	return p.refuse(ctx, "server", why,
		writ.Errorf(writ.CodeUnreachable, "cannot fetch %s: no permitted server provides it to this node", p.args.URL).
			WithHint("check that the address is right and that the server answers; the node's log has the cause. Private addresses need writ "+
				"runner --image-allow%s", kept))
}

// request asks the server once for the missing bytes. It returns errBroken if another attempt is useful.
func (p *part) request(parent context.Context, client *http.Client) error {
	ctx, cancel := context.WithCancel(parent)
	defer cancel()
	late := cmp.Or(p.stall, stall)
	watch := time.AfterFunc(late, cancel)
	defer watch.Stop()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, p.args.URL, nil)
	if err != nil {
		return writ.Errorf(writ.CodeArgumentsInvalid, "%s is not a valid URL: %w", p.args.URL, err)
	}
	if err := p.permit(request.URL); err != nil {
		return broken(parent, err)
	}
	request.Header.Set("Accept-Encoding", "identity") // ranges of a compressed answer would count other bytes
	if p.have > 0 {
		p.from = p.loadSource()
		request.Header.Set("Range", fmt.Sprintf("bytes=%d-", p.have))
		if p.from.tag != "" {
			request.Header.Set("If-Range", p.from.tag)
		}
	}
	answer, err := client.Do(request)
	if err != nil {
		return broken(parent, err)
	}
	defer answer.Body.Close()
	if again, err := p.begin(answer); err != nil || again {
		return err
	}
	_, err = io.Copy(p, &watchedReader{from: answer.Body, watch: watch, late: late})
	if host, ok := errors.AsType[hostError](err); ok {
		return host
	}
	if err = cmp.Or(err, ctx.Err()); err != nil { // the end of the context may look like the end of the answer
		return broken(parent, err)
	}
	return nil
}

// begin checks the header of an answer. It reports whether there is no body to read.
func (p *part) begin(answer *http.Response) (nothing bool, err error) {
	now := sourceOf(answer)
	switch code := answer.StatusCode; {
	case code == http.StatusPartialContent && startsAt(answer, p.have) && p.from.continues(now):
		p.joined = true
		return false, p.expect(answer.ContentLength)
	case code == http.StatusOK:
		if err := p.fitsDisk(answer.ContentLength); err != nil {
			return false, err
		}
		if err := p.restart(); err != nil {
			return false, hostError{err}
		}
		if err := p.saveSource(now); err != nil {
			return false, hostError{err}
		}
		return false, p.expect(answer.ContentLength)
	case code == http.StatusRequestedRangeNotSatisfiable && p.digest() == p.args.SHA256 && p.from.continues(now):
		return true, nil // the file is complete already
	case code == http.StatusRequestedRangeNotSatisfiable, code == http.StatusPartialContent:
		if err := p.restart(); err != nil {
			return false, hostError{err}
		}
		return false, fmt.Errorf("%w: its content changed", errBroken)
	case code == http.StatusNotFound || code == http.StatusGone:
		return false, writ.Errorf(writ.CodeNotFound, "the server does not have %s: %s", p.args.URL, answer.Status)
	case code >= 500 || code == http.StatusTooManyRequests || code == http.StatusRequestTimeout:
		return false, fmt.Errorf("%w: %s", errBroken, answer.Status)
	default:
		return false, writ.Errorf(writ.CodeArgumentsInvalid, "the server refuses %s: %s", p.args.URL, answer.Status)
	}
}

// startsAt reports whether an answer contains the range that begins at offset.
func startsAt(answer *http.Response, offset int64) bool {
	unit, rest, _ := strings.Cut(answer.Header.Get("Content-Range"), " ")
	first, _, _ := strings.Cut(rest, "-")
	n, err := strconv.ParseInt(first, 10, 64)
	return unit == "bytes" && err == nil && n == offset
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

// continues reports whether bytes of next may follow bytes of s. Otherwise, the first server could redirect the second
// request to another server and use the digest to guess the content there. The query may differ if the ETag is the
// same, because signatures in queries change with each answer.
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

// expect checks the number of bytes that the server announces, -1 if unknown. It returns an error at once if the disk
// has no room for them.
func (p *part) expect(bytes int64) error {
	p.all = p.have + max(bytes, 0)
	if err := p.fitsDisk(bytes); err != nil {
		return err
	}
	if free, _, known := room(p.to); known && bytes > free {
		return writ.Errorf(writ.CodeDiskFull, "%s has %d MiB more, and the node's disk has space for %d", p.args.URL,
			bytes>>20, free>>20).
			WithHint("free space on the node's disk; the call is retried")
	}
	return p.fits(p.all)
}

// fitsDisk returns an error if the disk would be too small for the bytes even when empty. Such a fetch is not retried.
// The check comes before anything is written, because a write to a full disk fails with an error that is retried.
func (p *part) fitsDisk(bytes int64) error {
	if _, total, known := room(p.to); known && bytes > total {
		return writ.Errorf(writ.CodeDriverRefused, "%s has %d MiB more, and the node's disk has %d in total",
			p.args.URL, bytes>>20, total>>20).
			WithHint("use a smaller image, or a node with a larger disk")
	}
	return nil
}

// room returns the free bytes and the size of the disk that holds a file.
func room(path string) (free, total int64, known bool) {
	var stat unix.Statfs_t
	if err := unix.Statfs(path, &stat); err != nil {
		return 0, 0, false
	}
	return int64(stat.Bavail) * int64(stat.Bsize), int64(stat.Blocks) * int64(stat.Bsize), true
}

// broken returns the cause of a broken connection as an error, or the error of parent if that has ended.
func broken(parent context.Context, err error) error {
	if parent.Err() != nil {
		return parent.Err()
	}
	if errors.Is(err, errInsecure) {
		return writ.Errorf(writ.CodeArgumentsInvalid, "%w", errInsecure)
	}
	if closed, ok := errors.AsType[closedAddress](err); ok {
		return writ.Errorf(writ.CodeArgumentsInvalid, "%w", closed).
			WithHint("use an address on the internet; the node's operator permits others with writ runner --image-allow")
	}
	if errors.Is(err, context.Canceled) {
		return fmt.Errorf("%w: %w for a while", errBroken, errStalled)
	}
	return fmt.Errorf("%w: %v", errBroken, err)
}

// watchedReader is a reader that resets the watchdog after each leastBytes.
type watchedReader struct {
	from  io.Reader
	watch *time.Timer
	late  time.Duration
	since int // bytes since the last reset
}

func (r *watchedReader) Read(b []byte) (int, error) {
	n, err := r.from.Read(b)
	if r.since += n; r.since >= leastBytes {
		r.since = 0
		r.watch.Reset(r.late)
	}
	return n, err
}

// errInsecure is the error for a redirect from https to another scheme.
var errInsecure = errors.New("the server redirects to an address without https")

// closedAddress is the error for a URL that contains a literal address from which images may not be fetched.
type closedAddress struct{ host string }

func (c closedAddress) Error() string { return "images may not be fetched from the address " + c.host }

// client returns a client that connects only through dial, without shared connections. It ignores the proxies of the
// environment, which could reach addresses that scripts may not.
func (p *part) client() *http.Client {
	dial := func(ctx context.Context, network, address string) (net.Conn, error) {
		return p.dial(ctx, network, address, func() { p.inside.Store(true) })
	}
	return &http.Client{
		Transport: &http.Transport{
			DialContext: dial, DisableKeepAlives: true, ForceAttemptHTTP2: true, TLSHandshakeTimeout: dialTimeout,
			TLSClientConfig: &tls.Config{RootCAs: p.authorities, MinVersion: tls.VersionTLS12},
		},
		CheckRedirect: func(next *http.Request, before []*http.Request) error {
			if next.URL.Scheme != "https" {
				return errInsecure
			}
			if len(before) >= 10 {
				return errors.New("the server redirects too often")
			}
			return p.permit(next.URL)
		},
	}
}

// permit rejects URLs with a forbidden literal address. Names are checked when they are dialled, and the result is not
// revealed.
func (p *part) permit(u *url.URL) error {
	a, err := netip.ParseAddr(u.Hostname())
	if err != nil {
		return nil
	}
	if ok, _ := p.allowed(a); !ok {
		return closedAddress{a.String()}
	}
	return nil
}
