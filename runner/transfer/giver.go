package transfer

import (
	"bufio"
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"writ"
	"writ/identity"
	"writ/identity/envelope"
	"writ/internal/clip"
	"writ/internal/limit"
	"writ/internal/sleep"
	"writ/sal"
)

const (
	// maxStreams limits the concurrent archive streams; further requests wait.
	maxStreams = 4
	// keptAfter is how long a snapshot is kept after its transfer grant expired. If a call times out and its run is
	// resumed, the call continues with the same snapshot.
	keptAfter = time.Hour
	// givenAtOnce is the number of archives in a burst that are logged individually.
	givenAtOnce = 20
)

// Giver serves archives to other nodes according to their transfer grants. Set its fields and call Serve once.
type Giver struct {
	Node       writ.NodeID
	Cluster    writ.ClusterID
	Datacenter writ.DatacenterID
	Key        ed25519.PrivateKey // key of the node
	// Keys looks up the keys that may sign transfer grants: those of the datacenter's supervisor in the newest roster.
	Keys envelope.Keys
	// Hold waits until no operation runs on the resource of a shipment, and blocks further operations until done is
	// called. After a timeout it returns an error, which the other node receives.
	Hold func(ctx context.Context, s sal.Shipment) (done func(), err error)
	// Shipper returns the driver of a resource kind, or nil if the driver is missing or cannot create archives.
	Shipper func(kind writ.ResourceKind) sal.Shipper
	Rate    int64 // limit in bytes per second for all archives together; 0 means unlimited
	Now     func() time.Time
	Log     *slog.Logger

	refusals limit.Lines
	given    limit.Lines

	pace        *rate.Limiter // nil if Rate is 0
	connections connections
	streams     chan struct{} // holds a token for each active stream
}

// Serve serves until ctx ends. Then it closes the listener and all connections and returns nil. It returns an error
// only if it cannot serve.
func (g *Giver) Serve(ctx context.Context, listener net.Listener) error {
	config, err := secured(g.Key)
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	g.streams, g.pace, g.given.AtOnce = make(chan struct{}, maxStreams), newPace(g.Rate), givenAtOnce
	var open sync.WaitGroup
	defer open.Wait()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	defer context.AfterFunc(ctx, func() { _ = listener.Close() })()
	for {
		conn, err := listener.Accept()
		switch {
		case ctx.Err() != nil:
			if err == nil {
				_ = conn.Close()
			}
			return nil
		case errors.Is(err, net.ErrClosed):
			return fmt.Errorf("accept connections of other nodes: %w", err)
		case err != nil: // usually out of file descriptors
			if times, say := g.refusals.Say("accept", time.Now()); say {
				g.Log.WarnContext(ctx, "accept a connection of another node", "err", err, "times", times)
			}
			_ = sleep.For(ctx, time.Second)
			continue
		}
		ctx, cancel := context.WithCancelCause(ctx)
		client, crowded := g.connections.enter(conn, cancel)
		if crowded != nil {
			g.Log.WarnContext(ctx, "unauthenticated connections fill the transfer endpoint; the oldest are closed",
				"from", crowded.from, "places", maxUnauthenticated)
		}
		open.Go(func() {
			defer client.leave()
			g.serve(ctx, client, config)
		})
	}
}

// serve handles one connection.
func (g *Giver) serve(ctx context.Context, client *client, config *tls.Config) {
	defer context.AfterFunc(ctx, func() { _ = client.conn.Close() })()
	if err := g.talk(ctx, client, tls.Server(client.conn, config)); err != nil && ctx.Err() == nil {
		g.refused(ctx, client, err)
	}
}

// refused logs a failed request. Any host may connect at any rate, so the log is rate-limited. Requests without a grant
// have a separate limit, so that they cannot suppress lines about nodes.
func (g *Giver) refused(ctx context.Context, client *client, err error) {
	who, code := "another node", writ.CodeOf(err)
	if client.transfer == "" {
		who = "an unauthenticated client"
	}
	if times, say := g.refusals.Say(who+" "+string(code), time.Now()); say {
		g.Log.WarnContext(ctx, who+" was refused", "from", client.conn.RemoteAddr().String(), "code", code, "err", err,
			"times", times)
	}
}

// talk reads the request and sends the archive or an error.
//
//failpoint:none it streams an archive to another node without changes on this node
func (g *Giver) talk(ctx context.Context, client *client, conn *tls.Conn) error {
	asked, shown, err := readRequest(ctx, conn)
	if err != nil {
		return writ.Errorf(writ.CodeBadRequest, "no valid request was received: %w", err)
	}
	moving := &moving{conn, stall}
	grant, err := g.check(asked, shown)
	if err == nil {
		err = client.admit(grant.Transfer, asked.Done)
	}
	if err != nil {
		return errors.Join(err, send(moving, answer{Error: publicError(err)}))
	}
	due := time.UnixMilli(grant.Expires).Add(identity.Skew) // an active stream is cut at this time
	ctx, stop := context.WithTimeoutCause(ctx, due.Sub(g.Now()), errExpired)
	defer stop()
	defer context.AfterFunc(ctx, func() { _ = conn.NetConn().Close() })()
	ship := sal.Shipment{
		Transfer: grant.Transfer, Resource: grant.Resource, UID: grant.UID, Snapshot: asked.Snapshot,
		Due: due, Until: time.UnixMilli(grant.Expires).Add(keptAfter),
	}
	if asked.Done {
		err := g.release(ctx, client, ship)
		return errors.Join(err, send(moving, answer{Error: publicError(err)}))
	}
	archive, err := g.keep(ctx, client, moving, ship)
	if err != nil {
		return errors.Join(err, send(moving, answer{Error: publicError(err)}))
	}
	defer func() { _ = archive.Close() }()
	defer func() { <-g.streams }()
	begin := asked.Offset
	if asked.Edition != archive.Edition || begin > archive.Bytes {
		begin = 0
	}
	if times, say := g.given.Say("", time.Now()); say { // a node may repeat its request at any rate
		g.Log.InfoContext(ctx, "archive sent to another node", "transfer", grant.Transfer, "to", grant.To,
			"resource", grant.Resource.String(), "bytes", archive.Bytes, "offset", begin, "times", times)
	}
	out := &tail{
		to: g.paced(ctx, moving), skip: begin, last: time.Now(),
		head: answer{Edition: archive.Edition, Bytes: archive.Bytes, Offset: begin, SizeGiB: archive.SizeGiB},
	}
	buffered, hash := bufio.NewWriterSize(out, chunk), sha256.New()
	err = guarded(func() error { return archive.Write(ctx, io.MultiWriter(hash, buffered)) })
	if err != nil {
		return fmt.Errorf("write the archive: %w", err)
	}
	if err := errors.Join(buffered.Flush(), out.begin()); err != nil {
		return err
	}
	return send(moving, trailer{SHA256: hex.EncodeToString(hash.Sum(nil))})
}

// readRequest completes the handshake and returns the request and the public key of the client.
func readRequest(ctx context.Context, conn *tls.Conn) (asked request, shown ed25519.PublicKey, err error) {
	if err := conn.SetDeadline(time.Now().Add(handshakeFor)); err != nil {
		return asked, nil, err
	}
	if err := conn.HandshakeContext(ctx); err != nil {
		return asked, nil, fmt.Errorf("shake hands: %w", err)
	}
	if shown, err = keyOf(conn.ConnectionState()); err != nil {
		return asked, nil, err
	}
	if err := receive(conn, &asked); err != nil {
		return asked, nil, fmt.Errorf("read the request: %w", err)
	}
	return asked, shown, nil
}

// paced limits the rate of a writer if the node has a limit.
func (g *Giver) paced(ctx context.Context, to io.Writer) io.Writer {
	if g.pace == nil {
		return to
	}
	return &paced{to, ctx, g.pace}
}

var errExpired = writ.Errorf(writ.CodeExpired, "the transfer grant has expired").
	WithHint("the next attempt of the call has a new transfer grant")

// check returns the transfer grant of a request. It verifies that the grant names this node as the source and the owner
// of the key `shown` as the receiver.
func (g *Giver) check(asked request, shown ed25519.PublicKey) (*writ.TransferGrant, error) {
	all, _, err := envelope.Open[writ.TransferGrant](envelope.TransferGrant, asked.Grant, g.Keys)
	if err != nil {
		return nil, err
	}
	w := all[0]
	switch {
	case len(all) != 1 || w.Cluster != g.Cluster || w.Datacenter != g.Datacenter || w.From != g.Node ||
		!g.Key.Public().(ed25519.PublicKey).Equal(ed25519.PublicKey(w.FromKey)):
		return nil, writ.Errorf(writ.CodeSignatureInvalid, "the transfer grant is for another source node")
	case !shown.Equal(ed25519.PublicKey(w.ToKey)):
		return nil, writ.Errorf(writ.CodeSignatureInvalid, "the transfer grant is for another receiving node")
	case g.Now().After(time.UnixMilli(w.Expires).Add(identity.Skew)):
		return nil, errExpired
	case asked.Snapshot != w.Snapshot:
		return nil, writ.Errorf(writ.CodeSignatureInvalid, "the transfer grant is for other data of %s", w.Resource)
	case w.Transfer == "" || asked.Offset < 0:
		return nil, writ.Errorf(writ.CodeBadRequest, "the request is incomplete")
	}
	return &w, nil
}

// keep calls prepare and sends keep-alive messages until prepare returns. After a nil error, the caller holds a token
// of g.streams and must return it.
func (g *Giver) keep(
	ctx context.Context, client *client, to io.Writer, ship sal.Shipment,
) (archive sal.Archive, err error) {
	type kept struct {
		sal.Archive
		err error
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	done := make(chan kept, 1)
	go func() {
		var k kept
		k.Archive, k.err = g.prepare(ctx, client, ship)
		done <- k
	}()
	tick := time.NewTicker(keepalive)
	defer tick.Stop()
	var gone error
	for {
		select {
		case k := <-done:
			if k.err == nil && gone != nil {
				<-g.streams
				return sal.Archive{}, errors.Join(gone, k.Close())
			}
			return k.Archive, errors.Join(k.err, gone)
		case <-tick.C:
			if gone == nil {
				if gone = send(to, answer{Wait: true}); gone != nil {
					stop() // the client has disconnected
				}
			}
		}
	}
}

// prepare waits for a token of g.streams and makes the driver prepare the archive. After a nil error the token is still
// taken.
func (g *Giver) prepare(ctx context.Context, client *client, ship sal.Shipment) (archive sal.Archive, err error) {
	shipper, err := g.shipper(ship)
	if err != nil {
		return sal.Archive{}, err
	}
	if err := client.alone(ctx); err != nil {
		return sal.Archive{}, err
	}
	select {
	case g.streams <- struct{}{}:
	case <-ctx.Done():
		return sal.Archive{}, context.Cause(ctx)
	}
	done, err := g.Hold(ctx, ship)
	if err == nil {
		err = guarded(func() error {
			archive, err = shipper.Ship(ctx, ship)
			return err
		})
		done()
	}
	if err != nil {
		<-g.streams
	}
	return archive, err
}

// release makes the driver release a snapshot.
func (g *Giver) release(ctx context.Context, client *client, ship sal.Shipment) error {
	shipper, err := g.shipper(ship)
	if err != nil {
		return err
	}
	if err := client.alone(ctx); err != nil {
		return err
	}
	done, err := g.Hold(ctx, ship)
	if err != nil {
		return err
	}
	defer done()
	return guarded(func() error { return shipper.Shipped(ctx, ship) })
}

func (g *Giver) shipper(ship sal.Shipment) (sal.Shipper, error) {
	if s := g.Shipper(ship.Resource.Kind); s != nil {
		return s, nil
	}
	return nil, writ.Errorf(writ.CodeDriverMissing, "the node that has the %s has no driver that can send it",
		ship.Resource)
}

// guarded converts a panic of a driver into an error.
func guarded(do func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the driver panicked: %v", p)
		}
	}()
	return do()
}

// maxErrorText limits each text of an error for another node, in bytes.
const maxErrorText = 2 << 10

// publicError returns the code, message and hint of an error, which another node may see, with limited length.
func publicError(err error) *writ.Error {
	if err == nil {
		return nil
	}
	e := writ.AsError(err)
	return &writ.Error{
		Code: e.Code, Message: clip.Prefix(e.Message, maxErrorText), Hint: clip.Prefix(e.Hint, maxErrorText),
	}
}

// tail drops the first skip bytes, which the other node already has, and then sends the answer and the rest. The
// archive is nevertheless written from its start, because the digest covers all bytes. While it drops bytes, tail sends
// keep-alive messages.
type tail struct {
	to    io.Writer
	head  answer
	skip  int64
	begun bool
	last  time.Time // time of the last write
}

func (t *tail) begin() error {
	if t.begun {
		return nil
	}
	t.begun = true
	return send(t.to, t.head)
}

func (t *tail) Write(p []byte) (int, error) {
	skipped := int(min(t.skip, int64(len(p))))
	t.skip -= int64(skipped)
	if skipped == len(p) {
		if time.Since(t.last) < keepalive {
			return len(p), nil
		}
		t.last = time.Now()
		return len(p), send(t.to, answer{Wait: true})
	}
	if err := t.begin(); err != nil {
		return skipped, err
	}
	n, err := t.to.Write(p[skipped:])
	return skipped + n, err
}
