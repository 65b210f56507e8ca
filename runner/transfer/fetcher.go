package transfer

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"syscall"
	"time"

	"writ"
	"writ/internal/reach"
	"writ/internal/sleep"
	"writ/sal"
)

const (
	// patience is how long the other node may be unreachable during a fetch. It suffices for a restart of that node.
	patience = time.Minute
	// pauseFirst and pauseMost are the first and the longest pause between attempts.
	pauseFirst, pauseMost = 200 * time.Millisecond, 5 * time.Second
)

// Fetcher fetches the archive of a transfer grant from another node.
type Fetcher struct {
	Key    ed25519.PrivateKey // key of this node
	Grant  writ.TransferGrant
	Signed []byte // the grant with the supervisor's signature
	// Dial makes connections; nil means net.Dialer.DialContext.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Allow lists the address ranges in which other nodes may be, in addition to public addresses. The other node chooses
	// its own address, so the address is untrusted. Without Allow, the Fetcher contacts no address of this host, its
	// network or its provider.
	Allow []netip.Prefix
	// Log receives the reason if the other node is unreachable, which only the operator of this node may see. May be nil.
	Log *slog.Logger
	// Patience is how long the other node may send nothing before Fetch fails; 0 means one minute.
	Patience time.Duration
	// Progress receives sentences about delays. May be nil.
	Progress func(text string)
}

var _ sal.Origin = (*Fetcher)(nil)

// Fetch implements sal.Origin. It reconnects until the archive is complete, an error is final, ctx ends, or the other
// node has sent nothing for Patience.
func (f *Fetcher) Fetch(ctx context.Context, snapshot string, to sal.Part) error {
	switch {
	case f.Grant.Unheard:
		return writ.Errorf(writ.CodeUnreachable,
			"the node %s, which has the %s, has not reported its address for transfers yet", f.Grant.FromName,
			f.Grant.Resource).
			WithHint("check that it runs (`writ node show %s`)", f.Grant.FromName)
	case f.Grant.Address == "":
		return writ.Errorf(writ.CodeDriverMissing, "the node %s, which has the %s, does not accept transfers",
			f.Grant.FromName, f.Grant.Resource).
			WithHint("start it with `writ runner --transfers HOST:PORT`, an address that other nodes can reach")
	}
	config, err := secured(f.Key)
	if err != nil {
		return err
	}
	again, heard, anew := pauseFirst, time.Now(), false
	var before error // error of the previous attempt, for people
	for {
		_, had := to.At()
		lives, err := f.attempt(ctx, config, snapshot, to)
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil && before != nil:
			return fmt.Errorf("%w: %w", before, context.Cause(ctx))
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.Is(err, errDigest) && !anew && had > 0: // the data of an earlier attempt is wrong
			anew = true
			if err := to.Begin(sal.Archive{}); err != nil {
				return err
			}
			continue
		case errors.Is(err, errDigest):
			return writ.Errorf(writ.CodeChecksumMismatch,
				"the data that the node %s sent of the %s does not match its digest", f.Grant.FromName,
				f.Grant.Resource)
		}
		if final, ok := errors.AsType[*final](err); ok {
			return final.err
		}
		if not, ok := errors.AsType[*unreached](err); ok && f.Log != nil && before == nil {
			f.Log.WarnContext(ctx, "connect to another node", "node", f.Grant.FromName, "address", f.Grant.Address,
				"err", not.why)
		}
		before = f.unreachable(err)
		if lives {
			heard = time.Now()
		} else if time.Since(heard) > cmp.Or(f.Patience, patience) {
			return before
		}
		_, has := to.At()
		f.report("node %s: %v; %d bytes are here", f.Grant.FromName, err, has)
		_ = sleep.For(ctx, again)
		if again = min(2*again, pauseMost); has > had {
			again = pauseFirst
		}
	}
}

// unreachable wraps a connection error for users. An error that the other node sent is returned unchanged.
func (f *Fetcher) unreachable(err error) error {
	if said, ok := errors.AsType[*writ.Error](err); ok {
		return said
	}
	return writ.Errorf(writ.CodeUnreachable, "the node %s does not send the %s at %s: %w", f.Grant.FromName,
		f.Grant.Resource, f.Grant.Address, err).
		WithHint("check that it runs and that this node reaches its address (`writ node show %s`), or read this node's log; addresses that are "+
			"not on the internet "+
			"need writ runner --transfer-allow; received data is kept for the next attempt", f.Grant.FromName)
}

func (f *Fetcher) report(format string, args ...any) {
	if f.Progress != nil {
		f.Progress(fmt.Sprintf(format, args...))
	}
}

// errDigest is the error of a complete archive with a wrong digest.
var errDigest = errors.New("its digest is wrong")

// final is an error that a new connection cannot resolve.
type final struct{ err error }

func (f *final) Error() string { return f.err.Error() }
func (f *final) Unwrap() error { return f.err }

// unreached is the error if the node of a transfer grant cannot be reached at its address, for any reason. The other
// node chose the address, so the error must not reveal whether there is a host, an open port or another server.
type unreached struct{ why error }

func (u *unreached) Error() string { return "it was not found there" }
func (u *unreached) Unwrap() error { return u.why }

// attempt fetches as much as one connection delivers. lives reports whether the other node answered, sent data or sent
// a keep-alive message.
func (f *Fetcher) attempt(
	ctx context.Context, config *tls.Config, snapshot string, to sal.Part,
) (lives bool, err error) {
	edition, offset := to.At()
	conn, err := f.connect(ctx, config, request{Grant: f.Signed, Snapshot: snapshot, Edition: edition, Offset: offset})
	if err != nil {
		return false, err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	a, lives, err := readAnswer(conn)
	switch {
	case err != nil:
		return lives, err
	case a.Error != nil && a.Error.Code == writ.CodeResourceBusy:
		return true, f.refused(a.Error)
	// Either node may lack the newest roster.
	case a.Error != nil && a.Error.Code == writ.CodeSignerUnknown:
		return false, f.behind(a.Error)
	case a.Error != nil:
		return true, &final{f.refused(a.Error)}
	case a.Bytes < 0 || a.Offset > a.Bytes || a.Edition == "" || a.Offset != 0 &&
		(a.Offset != offset || a.Edition != edition):
		return true, &final{writ.Errorf(writ.CodeDriverRefused,
			"the node %s sent another part of the archive than requested", f.Grant.FromName).
			WithHint("run the same version of writ on both nodes")}
	case a.Offset == 0:
		if err := to.Begin(sal.Archive{Edition: a.Edition, Bytes: a.Bytes, SizeGiB: a.SizeGiB}); err != nil {
			return true, &final{err}
		}
	}
	moved, err := pass(conn, to, a.Bytes-a.Offset)
	if err != nil {
		return lives || moved > 0, err
	}
	var end trailer
	if err := receive(conn, &end); err != nil {
		return lives || moved > 0, err
	}
	if end.SHA256 != to.Sum() {
		return true, errDigest
	}
	return true, nil
}

// pass copies `bytes` bytes. An error of the target is a final error; an error of the connection is not.
func pass(from io.Reader, to io.Writer, bytes int64) (moved int64, err error) {
	buffer := make([]byte, min(chunk, max(bytes, 1)))
	for moved < bytes {
		n, err := from.Read(buffer[:min(int64(len(buffer)), bytes-moved)])
		if n > 0 {
			if _, err := to.Write(buffer[:n]); err != nil {
				return moved, &final{err}
			}
			moved += int64(n)
		}
		if err != nil && moved < bytes {
			return moved, err
		}
	}
	return moved, nil
}

// connect connects to the node of the transfer grant, verifies its key and sends a request.
func (f *Fetcher) connect(ctx context.Context, config *tls.Config, r request) (*moving, error) {
	secure, err := f.reach(ctx, config)
	if err != nil {
		return nil, &unreached{err}
	}
	conn := &moving{secure, stall}
	return conn, send(conn, r)
}

// reach connects to the node of the transfer grant and verifies its key.
func (f *Fetcher) reach(ctx context.Context, config *tls.Config) (secure *tls.Conn, err error) {
	dial := f.Dial
	if dial == nil {
		dial = (&net.Dialer{Control: f.permit}).DialContext
	}
	first, stop := context.WithTimeout(ctx, handshakeFor)
	defer stop()
	raw, err := dial(first, "tcp", f.Grant.Address)
	if err != nil {
		return nil, err
	}
	secure = tls.Client(raw, config)
	defer func() {
		if err != nil {
			_ = raw.Close()
		}
	}()
	if err := secure.HandshakeContext(first); err != nil {
		return nil, err
	}
	shown, err := keyOf(secure.ConnectionState())
	if err == nil && !shown.Equal(ed25519.PublicKey(f.Grant.FromKey)) {
		err = errWrongKey // the address may belong to another server now
	}
	return secure, err
}

// permit rejects addresses that are neither public nor in Allow. It runs after name resolution, right before the
// connection.
func (f *Fetcher) permit(_, address string, _ syscall.RawConn) error {
	to, err := netip.ParseAddrPort(address)
	if err == nil && !reach.Allowed(to.Addr(), f.Allow) {
		err = fmt.Errorf("%s is not on the internet and in no range of --transfer-allow", to.Addr())
	}
	return err
}

// readAnswer reads the answer and skips the keep-alive messages before it. lives reports whether there were any.
func readAnswer(from io.Reader) (a answer, lives bool, err error) {
	for {
		a = answer{}
		if err := receive(from, &a); err != nil || !a.Wait {
			return a, lives, err
		}
		lives = true
	}
}

// refused wraps an error of the other node for the users of this node. It replaces the codes for a full disk and a
// failed journal by UNREACHABLE. Otherwise users would free space on the wrong node, and after NODE_STORE_UNAVAILABLE
// the supervisor would not count the attempt.
func (f *Fetcher) refused(e *writ.Error) *writ.Error {
	code := e.Code
	if code == writ.CodeDiskFull || code == writ.CodeNodeStore {
		code = writ.CodeUnreachable
	}
	return writ.Errorf(code, "the node %s answered: %s", f.Grant.FromName, e.Message).WithHint("%s", e.Hint)
}

// behind wraps the error for a transfer grant whose signing key the other node does not have. Either that node or this
// node lacks the newest roster. Both request a newer roster at once, so a retry helps. If this node is behind, the next
// attempt has a grant by another key.
func (f *Fetcher) behind(e *writ.Error) *writ.Error {
	return writ.Errorf(writ.CodeRosterTooOld, "the node %s answered: %s", f.Grant.FromName, e.Message).
		WithHint("it may not have the newest roster yet; check that it reaches its supervisor (`writ node show %s`)",
			f.Grant.FromName)
}

// Done implements sal.Origin. It tries once, because snapshots expire anyway.
func (f *Fetcher) Done(ctx context.Context, snapshot string) {
	config, err := secured(f.Key)
	if err != nil || f.Grant.Address == "" {
		return
	}
	ctx, stop := context.WithTimeout(ctx, handshakeFor)
	defer stop()
	conn, err := f.connect(ctx, config, request{Grant: f.Signed, Snapshot: snapshot, Done: true})
	if err != nil {
		return
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	_, _, _ = readAnswer(conn)
}
