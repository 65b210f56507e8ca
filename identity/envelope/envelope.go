// Package envelope signs and opens the messages that supervisors and nodes exchange through Redis: one ed25519
// signature over a frame of up to 64 records. It does not interpret records, and it does not depend on a transport.
//
// A frame is deterministic CBOR. Sign encodes it as a list of records. SignEach, for records that are sent separately,
// encodes it as a map with the list of their digests. The signature covers "writ-<kind>-v1\0" and the frame, or
// "writ-<kind>-v2\0" and the frame if the envelope names its kind (see KindOf). Open accepts only the bytes that
// signing the same values in the same form would create, so every message has exactly one encoding. An envelope is not
// encrypted.
package envelope

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"

	"writ"
	"writ/internal/cbor"
)

// Kind is the purpose of an envelope. An envelope of one kind never opens as another.
type Kind string

// The kinds.
const (
	Job      Kind = "job"      // supervisor → node, each record is sent separately
	Control  Kind = "control"  // supervisor → node
	Result   Kind = "result"   // node → supervisor
	Beat     Kind = "beat"     // node → supervisor
	Report   Kind = "report"   // node → supervisor
	Host     Kind = "host"     // node → supervisor: description of its machine
	Log      Kind = "log"      // node → supervisor: lines of its log
	Load     Kind = "load"     // node → supervisor: load of its resources
	Summary  Kind = "summary"  // supervisor → client
	Account  Kind = "account"  // supervisor → node, through the node API
	Welcome  Kind = "welcome"  // supervisor → joining node
	Standing Kind = "standing" // supervisor → node that asks for its own standing
	Fence    Kind = "fence"    // supervisor → node that asks whether it must stop its resources
	Fenced   Kind = "fenced"   // node → supervisor: resources that it stopped
	// AccountRequest asks for the node's account at the queue.
	AccountRequest Kind = "account-request" // node → supervisor
	TransferGrant  Kind = "waybill"         // supervisor → source node, through the fetching node
	// Answer is a decision about a signed text, and Adoption names the roster in force. The Standing kinds report the
	// states of a run, a node, the join tokens and the holds.
	Answer        Kind = "answer"         // supervisor → client
	Adoption      Kind = "adoption"       // supervisor → client
	RunStanding   Kind = "run-standing"   // supervisor → client
	NodeStanding  Kind = "node-standing"  // supervisor → client
	TokenStanding Kind = "token-standing" // supervisor → client
	HoldStanding  Kind = "hold-standing"  // supervisor → client
	// Challenge starts a login, and Refresh requests another token with the key of a session.
	Challenge Kind = "login-challenge" // coordinator → client
	Refresh   Kind = "login-refresh"   // client → coordinator
	// Authority delegates the issuing of certificates to another key of a supervisor or coordinator.
	Authority Kind = "authority" // supervisor or coordinator → its peers in TLS
)

const (
	// MaxRecords limits the records under one signature.
	MaxRecords = 64
	// MaxSize limits an envelope, in bytes: 64 results of 64 KiB each, with room for their encoding.
	MaxSize = 5 << 20
)

// KeyID identifies a signing key: the SHA-256 of the public key, as 64 hex digits.
type KeyID string

// IDOf returns the id of a public key.
func IDOf(key ed25519.PublicKey) KeyID { return KeyID(writ.DigestOf(key).String()) }

// Keys looks up a public key by its id. Open calls it for every envelope, so a withdrawn key opens no further
// envelopes. Open returns the error of Keys unchanged.
type Keys = func(KeyID) (ed25519.PublicKey, error)

// Only returns Keys for a fixed set of keys. For other keys the error is SIGNER_UNKNOWN.
func Only(keys ...ed25519.PublicKey) Keys {
	known := make(map[KeyID]ed25519.PublicKey, len(keys))
	for _, key := range keys {
		known[IDOf(key)] = key
	}
	return func(id KeyID) (ed25519.PublicKey, error) {
		if key, ok := known[id]; ok {
			return key, nil
		}
		return nil, writ.Errorf(writ.CodeSignerUnknown, "the signing key is unknown")
	}
}

// envelope is the wire format of an envelope that does not name its kind.
type envelope struct {
	_         struct{} `cbor:",toarray"`
	Key       []byte   // the id, 32 bytes
	Signature []byte
	Frame     []byte
	Record    []byte // used by SignEach, empty for Sign

	kind Kind // the kind that the envelope names, or ""; pack and decode write and read it
}

// list is the frame of SignEach.
type list struct {
	Digests [][]byte `json:"digests"`
}

// Sign returns one signed frame of 1 to MaxRecords records.
func Sign(kind Kind, key ed25519.PrivateKey, records ...any) ([]byte, error) {
	if err := checkCount(len(records)); err != nil {
		return nil, fmt.Errorf("sign: %w", err)
	}
	frame, err := cbor.Marshal(records)
	if err != nil {
		return nil, fmt.Errorf("sign: %w", err)
	}
	return pack(sign(kind, key, frame))
}

// SignEach signs 1 to MaxRecords records with one signature. For each record it returns a signed blob and the SHA-256
// of the record's encoding.
func SignEach(kind Kind, key ed25519.PrivateKey, records ...any) ([][]byte, []writ.Digest, error) {
	if err := checkCount(len(records)); err != nil {
		return nil, nil, fmt.Errorf("sign: %w", err)
	}
	texts := make([][]byte, len(records))
	digests := make([]writ.Digest, len(records))
	all := list{Digests: make([][]byte, len(records))}
	for i, r := range records {
		var err error
		if texts[i], err = cbor.Marshal(r); err != nil {
			return nil, nil, fmt.Errorf("sign: %w", err)
		}
		digests[i] = writ.DigestOf(texts[i])
		all.Digests[i] = digests[i][:]
	}
	frame, err := cbor.Marshal(all)
	if err != nil {
		return nil, nil, fmt.Errorf("sign: %w", err)
	}
	e := sign(kind, key, frame)
	signed := make([][]byte, len(records))
	for i := range records {
		e.Record = texts[i]
		if signed[i], err = pack(e); err != nil {
			return nil, nil, err
		}
	}
	return signed, digests, nil
}

// Open verifies and decodes the output of Sign. Without an error it returns at least one record. The errors are those
// of the key function, and *writ.Error with TOO_LARGE, SIGNATURE_MALFORMED (invalid envelope, or records of another
// form) or SIGNATURE_INVALID (changed, or signed for another kind).
func Open[T any](kind Kind, signed []byte, key Keys) ([]T, KeyID, error) {
	e, public, by, err := unpack(signed, key)
	if err != nil {
		return nil, "", err
	}
	if len(e.Record) > 0 {
		return nil, "", malformed(errors.New("a single record instead of a frame"))
	}
	text, err := e.signedText(kind)
	if err != nil {
		return nil, "", err
	}
	if !isSignature(public, text, e.Signature) {
		return nil, "", invalid()
	}
	var records []T
	if err := cbor.Unmarshal(e.Frame, &records); err != nil {
		return nil, "", malformed(err)
	}
	if err := checkCount(len(records)); err != nil {
		return nil, "", malformed(err)
	}
	return records, by, nil
}

// OpenWith verifies and decodes one blob of SignEach. It returns the record and the SHA-256 of its encoding. It returns
// the errors of Open.
func OpenWith[T any](o *Opener, kind Kind, signed []byte) (record T, digest writ.Digest, err error) {
	text, digest, _, err := o.Record(kind, signed)
	if err != nil {
		return record, writ.Digest{}, err
	}
	if err := cbor.Unmarshal(text, &record); err != nil {
		var none T
		return none, writ.Digest{}, malformed(err)
	}
	return record, digest, nil
}

func checkCount(n int) error {
	if n < 1 || n > MaxRecords {
		return fmt.Errorf("%d records; 1 to %d are allowed", n, MaxRecords)
	}
	return nil
}

func idBytes(key ed25519.PrivateKey) [sha256.Size]byte {
	return sha256.Sum256(key.Public().(ed25519.PublicKey))
}

// sign returns the signed envelope of a frame, in the form of its kind.
func sign(kind Kind, key ed25519.PrivateKey, frame []byte) envelope {
	id := idBytes(key)
	e := envelope{Key: id[:], Frame: frame}
	if kind.isNamed() {
		e.kind = kind
	}
	e.Signature = makeSignature(key, signedBytes(kind, e.kind != "", frame))
	return e
}

// signedText returns the bytes that a signature of the kind covers. It refuses an envelope that names another kind.
func (e envelope) signedText(kind Kind) ([]byte, error) {
	if e.kind != "" && e.kind != kind {
		return nil, invalid()
	}
	return signedBytes(kind, e.kind != "", e.Frame), nil
}

// signedBytes prefixes a frame with its kind and form. The two forms differ, so that an attacker cannot add the name of
// a kind to an envelope or remove it.
func signedBytes(kind Kind, named bool, frame []byte) []byte {
	form := "-v1\x00"
	if named {
		form = "-v2\x00"
	}
	b := make([]byte, 0, len("writ-")+len(kind)+len(form)+len(frame))
	b = append(b, "writ-"...)
	b = append(b, kind...)
	b = append(b, form...)
	return append(b, frame...)
}

func pack(e envelope) ([]byte, error) {
	signed, err := encode(e)
	if err != nil {
		return nil, fmt.Errorf("sign: %w", err)
	}
	if len(signed) > MaxSize {
		return nil, writ.Errorf(writ.CodeTooLarge, "an envelope has %d bytes; %d are allowed", len(signed), MaxSize)
	}
	return signed, nil
}

// unpack decodes an envelope and looks up the key that it names. It verifies no signature.
func unpack(signed []byte, keys Keys) (envelope, ed25519.PublicKey, KeyID, error) {
	if len(signed) > MaxSize {
		return envelope{}, nil, "", writ.Errorf(writ.CodeTooLarge, "an envelope has %d bytes; %d are allowed",
			len(signed), MaxSize)
	}
	e, err := decode(signed)
	if err != nil {
		return envelope{}, nil, "", malformed(err)
	}
	if len(e.Key) != sha256.Size || len(e.Signature) != ed25519.SignatureSize {
		return envelope{}, nil, "", malformed(errors.New("key id or signature of the wrong length"))
	}
	id := KeyID(hex.EncodeToString(e.Key))
	key, err := keys(id)
	if err != nil {
		return envelope{}, nil, "", err
	}
	if len(key) != ed25519.PublicKeySize || sha256.Sum256(key) != [sha256.Size]byte(e.Key) {
		return envelope{}, nil, "", invalid()
	}
	return e, key, id, nil
}

func malformed(err error) *writ.Error {
	return &writ.Error{Code: writ.CodeSignatureMalformed, Message: "the envelope is invalid", Err: err}
}

func invalid() *writ.Error {
	return writ.Errorf(writ.CodeSignatureInvalid, "the signature is wrong, or was made for another purpose")
}
