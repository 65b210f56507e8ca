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
	// patience is how long the other node may be away while an archive is fetched: long enough for one that is started anew.
	patience = time.Minute
	// pauseFirst and pauseMost are how long it waits before it tries again.
	pauseFirst, pauseMost = 200 * time.Millisecond, 5 * time.Second
)

// Fetcher is the origin of what a transfer grant lets this node have.
type Fetcher struct {
	Key    ed25519.PrivateKey // of this node
	Grant  writ.TransferGrant
	Signed []byte // the same, as the supervisor signed it
	// Dial connects, as net.Dialer.DialContext if nil.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Allow are ranges of addresses at which nodes may be besides those on the internet. The other node names its own address, so that it is
	// nothing but a wish: without them none of this host, of this network or of a provider is asked.
	Allow []netip.Prefix
	// Log is told why the other node is not reached, for this node's operator alone; it may be nil.
	Log *slog.Logger
	// Patience is how long the other node may be away without a word; a minute if 0.
	Patience time.Duration
	// Progress is told in sentences what is in the way; it may be nil.
	Progress func(text string)
}

var _ sal.Origin = (*Fetcher)(nil)

// Fetch implements sal.Origin: over as many connections as it takes.
func (f *Fetcher) Fetch(ctx context.Context, snapshot string, to sal.Part) error {
	switch {
	case f.Grant.Unheard:
		return writ.Errorf(writ.CodeUnreachable, "the node %s, which has the %s, has not said yet where it gives it to other nodes", f.Grant.FromName, f.Grant.Resource).
			WithHint("see that it runs (`writ node show %s`)", f.Grant.FromName)
	case f.Grant.Address == "":
		return writ.Errorf(writ.CodeDriverMissing, "the node %s, which has the %s, gives nothing to other nodes", f.Grant.FromName, f.Grant.Resource).
			WithHint("start it with `writ runner --transfers HOST:PORT`, an address at which the others reach it")
	}
	config, err := secured(f.Key)
	if err != nil {
		return err
	}
	again, heard, anew := pauseFirst, time.Now(), false
	var before error // why the attempt before failed, for people
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
		case errors.Is(err, errDigest) && !anew && had > 0: // something in what was there before is wrong
			anew = true
			if err := to.Begin(sal.Archive{}); err != nil {
				return err
			}
			continue
		case errors.Is(err, errDigest):
			return writ.Errorf(writ.CodeChecksumMismatch, "what the node %s sent of the %s does not have the digest that it says", f.Grant.FromName, f.Grant.Resource)
		}
		if final, ok := errors.AsType[*final](err); ok {
			return final.err
		}
		if not, ok := errors.AsType[*unreached](err); ok && f.Log != nil && before == nil {
			f.Log.WarnContext(ctx, "connect to another node", "node", f.Grant.FromName, "address", f.Grant.Address, "err", not.why)
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

// unreachable is what went wrong on the way, for people. What the other node has said itself stays as it is.
func (f *Fetcher) unreachable(err error) error {
	if said, ok := errors.AsType[*writ.Error](err); ok {
		return said
	}
	return writ.Errorf(writ.CodeUnreachable, "the node %s does not give the %s at %s: %w", f.Grant.FromName, f.Grant.Resource, f.Grant.Address, err).
		WithHint("see that it runs and that this node reaches its address (`writ node show %s`), or see this node's log; addresses that are "+
			"not on the internet "+
			"need writ runner --transfer-allow; what has arrived is kept for the next attempt", f.Grant.FromName)
}

func (f *Fetcher) report(format string, args ...any) {
	if f.Progress != nil {
		f.Progress(fmt.Sprintf(format, args...))
	}
}

// errDigest is that of an archive which is whole and not what it should be.
var errDigest = errors.New("its digest is wrong")

// final is an error that another connection does not help against.
type final struct{ err error }

func (f *final) Error() string { return f.err.Error() }
func (f *final) Unwrap() error { return f.err }

// unreached is the error about an address at which the node of a transfer grant does not show itself, whatever the reason is. Somebody else has
// named the address, so the error does not say whether there is a host, an open port or another server.
type unreached struct{ why error }

func (u *unreached) Error() string { return "it does not show itself there" }
func (u *unreached) Unwrap() error { return u.why }

// attempt fetches what one connection brings. lives says that the other end does what it can, however long that takes.
func (f *Fetcher) attempt(ctx context.Context, config *tls.Config, snapshot string, to sal.Part) (lives bool, err error) {
	edition, offset := to.At()
	conn, err := f.connect(ctx, config, request{Grant: f.Signed, Snapshot: snapshot, Edition: edition, Offset: offset})
	if err != nil {
		return false, err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	a, lives, err := hear(conn)
	switch {
	case err != nil:
		return lives, err
	case a.Error != nil && a.Error.Code == writ.CodeResourceBusy:
		return true, f.refused(a.Error)
	case a.Error != nil && a.Error.Code == writ.CodeSignerUnknown: // this node knows the one who signed it
		return false, f.behind(a.Error)
	case a.Error != nil:
		return true, &final{f.refused(a.Error)}
	case a.Bytes < 0 || a.Offset > a.Bytes || a.Edition == "" || a.Offset != 0 && (a.Offset != offset || a.Edition != edition):
		return true, &final{writ.Errorf(writ.CodeDriverRefused, "the node %s answers with another part of the archive than was asked for", f.Grant.FromName).
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

// pass passes so many bytes on. What goes wrong here is final, what goes wrong on the way is not.
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

// connect sends a request to the node of the transfer grant, and to no other.
func (f *Fetcher) connect(ctx context.Context, config *tls.Config, r request) (*moving, error) {
	secure, err := f.reach(ctx, config)
	if err != nil {
		return nil, &unreached{err}
	}
	conn := &moving{secure, stall}
	return conn, send(conn, r)
}

// reach connects to the node of the transfer grant.
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
		err = errStranger // it may be one that had the address before
	}
	return secure, err
}

// permit is asked with each address, when names are looked up, right before the socket is connected to it.
func (f *Fetcher) permit(_, address string, _ syscall.RawConn) error {
	to, err := netip.ParseAddrPort(address)
	if err == nil && !reach.Allowed(to.Addr(), f.Allow) {
		err = fmt.Errorf("%s is not on the internet and in no range of --transfer-allow", to.Addr())
	}
	return err
}

// hear reads the answer, which may take its time: the other end lives if it says so.
func hear(from io.Reader) (a answer, lives bool, err error) {
	for {
		a = answer{}
		if err := receive(from, &a); err != nil || !a.Wait {
			return a, lives, err
		}
		lives = true
	}
}

// refused is what the other node said, for people here. That its disk is full or its journal cannot be written must not be taken for a word
// on this node: nothing here has to make room, and the attempt counts.
func (f *Fetcher) refused(e *writ.Error) *writ.Error {
	code := e.Code
	if code == writ.CodeDiskFull || code == writ.CodeNodeStore {
		code = writ.CodeUnreachable
	}
	return writ.Errorf(code, "the node %s says: %s", f.Grant.FromName, e.Message).WithHint("%s", e.Hint)
}

// behind is what a node says that does not know the key of a transfer grant: it has not got the newest roster, or this node has not. Whoever is
// behind asks for it at once, so that patience helps; and if it is this node, the next attempt has a transfer grant that another key has signed.
func (f *Fetcher) behind(e *writ.Error) *writ.Error {
	return writ.Errorf(writ.CodeRosterTooOld, "the node %s says: %s", f.Grant.FromName, e.Message).
		WithHint("it may not have the newest roster yet; see that it reaches its supervisor (`writ node show %s`)", f.Grant.FromName)
}

// Done implements sal.Origin. It tries once: what is not let go of expires.
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
	_, _, _ = hear(conn)
}
