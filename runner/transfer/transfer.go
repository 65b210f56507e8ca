// Package transfer moves archives between nodes. The receiving node connects to the node with the resource, over TLS
// 1.3; both authenticate with the ed25519 keys of their nodes. The package handles transfer grants, bytes and
// connection failures. It must not depend on the content of archives or on their drivers.
//
// A connection carries one request and one answer. A successful answer is followed by the bytes of an archive from an
// offset on, and by a trailer with the digest of the whole archive. Messages are deterministic CBOR with a length
// prefix.
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
	// handshakeFor limits the time for connecting, the handshake and the request, and the whole of Done. A node that
	// needs longer for its answer, for example to snapshot a large volume, sends keep-alive messages.
	handshakeFor = 15 * time.Second
	// stall is the time without progress after which a read or write fails.
	stall = 30 * time.Second
	// keepalive is the interval of keep-alive messages from a node that is still preparing its answer.
	keepalive = 5 * time.Second
	// maxMessage limits a message, in bytes. A signed transfer grant takes less than 2 KiB.
	maxMessage = 16 << 10
	// chunk is the size of reads. record is the size of the parts of a write, equal to a TLS record. Each part must be
	// sent within stall.
	chunk, record = 256 << 10, 16 << 10
)

// request is the message from the receiving node.
type request struct {
	Grant    []byte `json:"waybill"` // signed
	Snapshot string `json:"snapshot"`
	Edition  string `json:"edition"` // edition of the part that the receiving node already has
	Offset   int64  `json:"offset"`  // length of that part
	Done     bool   `json:"done"`    // release the snapshot
}

// Requests lists the kinds of requests that a node receives from other nodes.
func Requests() []string { return []string{"fetch", "done"} }

// answer is the reply to a request. An answer with Wait is a keep-alive message, and a further answer follows.
type answer struct {
	Wait    bool        `json:"wait,omitempty"`
	Error   *writ.Error `json:"error,omitempty"`
	Edition string      `json:"edition,omitempty"`
	Bytes   int64       `json:"bytes,omitempty"`  // size of the whole archive
	Offset  int64       `json:"offset,omitempty"` // offset of the first byte that follows: the requested offset or 0
	SizeGiB int64       `json:"size_gib,omitempty"`
}

// trailer is the message after the last byte of an archive.
type trailer struct {
	SHA256 string `json:"sha256"` // digest of the whole archive
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

// secured returns the TLS configuration of both ends. Certificates only carry the keys, and each end verifies the
// other's key after the handshake.
func secured(key ed25519.PrivateKey) (*tls.Config, error) {
	own, err := pki.Bare(key)
	if err != nil {
		return nil, err
	}
	return &tls.Config{
		Certificates:           []tls.Certificate{*own},
		MinVersion:             tls.VersionTLS13,
		ClientAuth:             tls.RequireAnyClientCert,
		InsecureSkipVerify:     true, // names and authorities are unused; the key is verified instead
		SessionTicketsDisabled: true, // so that each connection shows the key
		NextProtos:             []string{"writ-carry-v1"},
	}, nil
}

// errWrongKey is the error if the other end has a key that is not the key in the transfer grant.
var errWrongKey = errors.New("the other end has another key than in the transfer grant")

// keyOf returns the key of the other end.
func keyOf(state tls.ConnectionState) (ed25519.PublicKey, error) {
	if state.NegotiatedProtocol != "writ-carry-v1" {
		return nil, errors.New("the other end is not a node")
	}
	key := pki.BareKey(state.PeerCertificates)
	if key == nil {
		return nil, errors.New("the other end shows no ed25519 key")
	}
	return key, nil
}

// moving is a connection that fails if a read or write makes no progress.
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
