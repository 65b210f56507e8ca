// Package transfer moves archives from one node to another: the node that gets one connects to the node that has it, over TLS 1.3, where both
// show the ed25519 keys of their nodes and no others will do. It knows transfer grants, bytes and how connections fail; it must not know what is in
// an archive, nor who keeps it.
//
// A connection has one request, one answer and, if that is no error, the bytes of an archive from an offset on and a trailer with the digest
// of the whole. All but the bytes is deterministic CBOR behind its length.
package transfer

import (
	"crypto/ed25519"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"writ"
	"writ/identity/pki"
	"writ/internal/cbor"
)

const (
	// handshakeFor is how long two nodes may take until the request and its answer are there. Whoever keeps a big volume first takes longer:
	// it says so, see keepalive.
	handshakeFor = 15 * time.Second
	// stall is how long nothing may move before a connection is given up.
	stall = 30 * time.Second
	// keepalive is how often the giving node says that it is still about to answer.
	keepalive = 5 * time.Second
	// maxMessage bounds a message: a transfer grant with its envelope has less than 2 KiB.
	maxMessage = 16 << 10
	// chunk is how much is read at once, and record how much has to be written before the connection counts as stalled: as TLS has it.
	chunk, record = 256 << 10, 16 << 10
)

// request is what the node that fetches asks.
type request struct {
	Grant    []byte `json:"waybill"` // signed
	Snapshot string `json:"snapshot"`
	Edition  string `json:"edition"` // that it has a part of
	Offset   int64  `json:"offset"`  // how long that is
	Done     bool   `json:"done"`    // it needs nothing any more
}

// Requests lists the kinds of requests that a node receives from other nodes.
func Requests() []string { return []string{"fetch", "done"} }

// answer is what it is told. One that only says wait is followed by another.
type answer struct {
	Wait    bool        `json:"wait,omitempty"`
	Error   *writ.Error `json:"error,omitempty"`
	Edition string      `json:"edition,omitempty"`
	Bytes   int64       `json:"bytes,omitempty"`  // of the whole archive
	Offset  int64       `json:"offset,omitempty"` // of the first byte that follows: the one that was asked for, or 0
	SizeGiB int64       `json:"size_gib,omitempty"`
}

// trailer follows the last byte.
type trailer struct {
	SHA256 string `json:"sha256"` // of the whole archive
}

// send writes a message.
func send(to io.Writer, message any) error {
	text, err := cbor.Marshal(message)
	if err != nil {
		return err
	}
	if len(text) > maxMessage {
		return fmt.Errorf("a message of %d bytes", len(text))
	}
	_, err = to.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(text))), text...))
	return err
}

// receive reads a message.
func receive(from io.Reader, message any) error {
	var head [4]byte
	if _, err := io.ReadFull(from, head[:]); err != nil {
		return err
	}
	n := binary.BigEndian.Uint32(head[:])
	if n > maxMessage {
		return fmt.Errorf("a message of %d bytes", n)
	}
	text := make([]byte, n)
	if _, err := io.ReadFull(from, text); err != nil {
		return err
	}
	return cbor.Unmarshal(text, message)
}

// secured is how both ends speak TLS. Certificates say nothing but the key, which each end compares by itself.
func secured(key ed25519.PrivateKey) (*tls.Config, error) {
	own, err := pki.Bare(key)
	if err != nil {
		return nil, err
	}
	return &tls.Config{
		Certificates:           []tls.Certificate{*own},
		MinVersion:             tls.VersionTLS13,
		ClientAuth:             tls.RequireAnyClientCert,
		InsecureSkipVerify:     true, // no name and no authority counts: the key is compared
		SessionTicketsDisabled: true, // so that each connection shows the key
		NextProtos:             []string{"writ-carry-v1"},
	}, nil
}

// errStranger is that of an end which shows another key than it should.
var errStranger = errors.New("the other end has another key than the transfer grant says")

// keyOf returns the key that the other end has shown.
func keyOf(state tls.ConnectionState) (ed25519.PublicKey, error) {
	if state.NegotiatedProtocol != "writ-carry-v1" {
		return nil, errors.New("the other end is no node")
	}
	key := pki.BareKey(state.PeerCertificates)
	if key == nil {
		return nil, errors.New("the other end shows no ed25519 key")
	}
	return key, nil
}

// moving is a connection that is given up when nothing moves, in either direction.
type moving struct {
	net.Conn
	stall time.Duration
}

func (m *moving) Read(p []byte) (int, error) {
	if err := m.SetReadDeadline(time.Now().Add(m.stall)); err != nil {
		return 0, err
	}
	return m.Conn.Read(p)
}

func (m *moving) Write(p []byte) (written int, err error) {
	for len(p) > 0 && err == nil {
		if err = m.SetWriteDeadline(time.Now().Add(m.stall)); err != nil {
			return written, err
		}
		var n int
		n, err = m.Conn.Write(p[:min(record, len(p))])
		written, p = written+n, p[n:]
	}
	return written, err
}
