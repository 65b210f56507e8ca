package image

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"writ"
	"writ/internal/outbound"
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
var errBroken = errors.New("the transfer from the server failed")

// server is the origin of a part that is fetched over https.
type server struct {
	*part
	client *http.Client
	permit func(*url.URL) error // see outbound.Dialer.Permit
	pause  time.Duration
	stall  time.Duration
}

func newServer(d *Driver, p *part) *server {
	network := outbound.Dialer{Allow: d.Allow, Lookup: d.lookup, Reach: d.reach, Inside: func() { p.inside.Store(true) }}
	return &server{p, network.Client(network.Transport(d.authorities)), network.Permit, cmp.Or(d.Pause, pause), cmp.Or(d.stall, stall)}
}

// fill fetches the missing bytes. It repeats failed requests until several in a row have received no data; see
// attempts.
func (s *server) fill(ctx context.Context) error {
	defer s.client.CloseIdleConnections()
	for wait, futile := s.pause, 0; ; {
		before := s.have
		err := s.request(ctx)
		if err != nil && s.inside.Load() && ctx.Err() == nil && !errors.Is(err, errBroken) {
			err = fmt.Errorf("%w: %w", errBroken, err) // the script must not distinguish the failures of an internal server
		}
		if !errors.Is(err, errBroken) {
			return err
		}
		if errors.Is(err, errStalled) && s.have-before < leastBytes {
			return s.unreachable(ctx, err)
		}
		if s.have > before {
			wait, futile = s.pause, 0
		}
		if futile++; futile >= attempts {
			return s.unreachable(ctx, err)
		}
		s.tell(fmt.Sprintf("%v after %d MiB; retrying", errBroken, s.have>>20))
		if err := sleep.For(ctx, wait); err != nil {
			return err
		}
		wait *= 2
	}
}

// mismatch implements origin. For an internal server, it behaves as if the server were unreachable.
func (s *server) mismatch(ctx context.Context) error {
	why := otherDigest(s.digest(), s.args.SHA256)
	if s.inside.Load() {
		if err := s.restart(); err != nil {
			return err
		}
		if err := sleep.For(ctx, s.pause*(1<<(attempts-1)-1)); err != nil { // the pauses of fill
			return err
		}
		return s.unreachable(ctx, why)
	}
	return s.refuse(ctx, "digest", why,
		writ.Errorf(writ.CodeChecksumMismatch, "the SHA-256 of %s is not %s", s.args.URL, s.args.SHA256).
			WithHint("compare it with the publisher's; the content was discarded, and the node's log has its SHA-256"))
}

// unreachable returns the same error for all failures of a server. Whether a name resolves, a port is open or a server
// speaks another protocol is only logged for the node's operator.
func (s *server) unreachable(ctx context.Context, why error) error {
	kept := ""
	if s.have > 0 && !s.inside.Load() {
		kept = fmt.Sprintf("; the %d MiB fetched so far are kept, and the call is retried", s.have>>20)
	}
	return s.refuse(ctx, "server", why,
		writ.Errorf(writ.CodeUnreachable, "cannot fetch %s: no permitted server provides it to this node", s.args.URL).
			WithHint("check that the address is right and that the server answers; the node's log has the cause. Private addresses need writ "+
				"runner --image-allow%s", kept))
}

// request asks the server once for the missing bytes. It returns errBroken if another attempt is useful.
func (s *server) request(parent context.Context) error {
	ctx, cancel := context.WithCancel(parent)
	defer cancel()
	watch := time.AfterFunc(s.stall, cancel)
	defer watch.Stop()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.args.URL, nil)
	if err != nil {
		return writ.Errorf(writ.CodeArgumentsInvalid, "%s is not a valid URL: %w", s.args.URL, err)
	}
	if err := s.permit(request.URL); err != nil {
		return broken(parent, err)
	}
	request.Header.Set("Accept-Encoding", "identity") // ranges of a compressed answer would count other bytes
	if s.have > 0 {
		s.from = s.loadSource()
		request.Header.Set("Range", fmt.Sprintf("bytes=%d-", s.have))
		if s.from.tag != "" {
			request.Header.Set("If-Range", s.from.tag)
		}
	}
	answer, err := s.client.Do(request)
	if err != nil {
		return broken(parent, err)
	}
	defer answer.Body.Close()
	if complete, err := s.begin(answer); err != nil || complete {
		return err
	}
	_, err = io.Copy(s, &watchedReader{from: answer.Body, watch: watch, late: s.stall})
	if host, ok := errors.AsType[hostError](err); ok {
		return host
	}
	if err = cmp.Or(err, ctx.Err()); err != nil { // the end of the context may look like the end of the answer
		return broken(parent, err)
	}
	return nil
}

// begin checks the header of an answer. complete reports that the file already has all bytes, so the body is not
// needed.
func (s *server) begin(answer *http.Response) (complete bool, err error) {
	now := sourceOf(answer)
	switch code := answer.StatusCode; {
	case code == http.StatusPartialContent && startsAt(answer, s.have) && s.from.continues(now):
		s.joined = true
		return false, s.expect(answer.ContentLength)
	case code == http.StatusOK:
		if err := s.fitsDisk(answer.ContentLength); err != nil {
			return false, err
		}
		if err := s.restart(); err != nil {
			return false, hostError{err}
		}
		if err := s.saveSource(now); err != nil {
			return false, hostError{err}
		}
		return false, s.expect(answer.ContentLength)
	case code == http.StatusRequestedRangeNotSatisfiable && s.digest() == s.args.SHA256 && s.from.continues(now):
		return true, nil // the file is complete already
	case code == http.StatusRequestedRangeNotSatisfiable, code == http.StatusPartialContent:
		if err := s.restart(); err != nil {
			return false, hostError{err}
		}
		return false, fmt.Errorf("%w: its content changed", errBroken)
	case code == http.StatusNotFound || code == http.StatusGone:
		return false, writ.Errorf(writ.CodeNotFound, "the server does not have %s: %s", s.args.URL, answer.Status)
	case code >= 500 || code == http.StatusTooManyRequests || code == http.StatusRequestTimeout:
		return false, fmt.Errorf("%w: %s", errBroken, answer.Status)
	default:
		return false, writ.Errorf(writ.CodeArgumentsInvalid, "the server refuses %s: %s", s.args.URL, answer.Status)
	}
}

// startsAt reports whether an answer contains the range that begins at offset.
func startsAt(answer *http.Response, offset int64) bool {
	unit, rest, _ := strings.Cut(answer.Header.Get("Content-Range"), " ")
	first, _, _ := strings.Cut(rest, "-")
	n, err := strconv.ParseInt(first, 10, 64)
	return unit == "bytes" && err == nil && n == offset
}

// broken converts the error of a failed request. It returns the error of parent if parent has ended, and
// ARGUMENTS_INVALID if the address is not permitted. For other errors, it returns errBroken with the cause.
func broken(parent context.Context, err error) error {
	if parent.Err() != nil {
		return parent.Err()
	}
	if errors.Is(err, outbound.ErrInsecure) {
		return writ.Errorf(writ.CodeArgumentsInvalid, "%w", outbound.ErrInsecure)
	}
	if closed, ok := errors.AsType[outbound.ClosedAddress](err); ok {
		return writ.Errorf(writ.CodeArgumentsInvalid, "%w", closed).
			WithHint("use an address on the internet; the node's operator permits others with `writ runner --image-allow`")
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
