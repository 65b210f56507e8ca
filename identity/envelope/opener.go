package envelope

import (
	"crypto/ed25519"
	"crypto/sha256"
	"fmt"
	"slices"
	"sync"

	"writ"
	"writ/internal/cbor"
)

// maxCachedLists limits the verified lists of an Opener, at most 2 MiB of digests. This exceeds the number of lists
// that a node ever receives at once.
const maxCachedLists = 1024

// Opener opens blobs of SignEach, and verifies a signature shared by several blobs only once. It caches signatures, but
// not the validity of keys: it calls Keys every time. It may be used concurrently.
type Opener struct {
	Keys Keys

	mu       sync.Mutex
	verified map[sum][]writ.Digest // digest lists with a verified signature
	order    []sum                 // ring of the keys of verified, oldest at next
	next     int
}

// sum identifies a signature of a key over a frame of one kind.
type sum [sha256.Size]byte

// Record verifies one blob of SignEach. It returns the encoded record, its SHA-256 and the signer's key id. It returns
// the errors of Open.
func (o *Opener) Record(kind Kind, signed []byte) (record []byte, digest writ.Digest, by KeyID, err error) {
	e, key, by, err := unpack(signed, o.Keys)
	if err != nil {
		return nil, writ.Digest{}, "", err
	}
	digests, err := o.verify(kind, key, e)
	if err != nil {
		return nil, writ.Digest{}, "", err
	}
	digest = writ.DigestOf(e.Record)
	if !slices.Contains(digests, digest) {
		return nil, writ.Digest{}, "", invalid()
	}
	return e.Record, digest, by, nil
}

// verify returns the digests of a frame. It verifies the signature unless it is cached.
func (o *Opener) verify(kind Kind, key ed25519.PublicKey, e envelope) ([]writ.Digest, error) {
	text, err := e.signedText(kind)
	if err != nil {
		return nil, err
	}
	h := sha256.New()
	h.Write(key)         // 32 bytes
	h.Write(e.Signature) // 64 bytes
	h.Write(text)
	name := sum(h.Sum(nil))

	o.mu.Lock()
	digests, known := o.verified[name]
	o.mu.Unlock()
	if known {
		return digests, nil
	}
	if !isSignature(key, text, e.Signature) {
		return nil, invalid()
	}
	if digests, err = readList(e.Frame); err != nil {
		return nil, malformed(err)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.cache(name, digests)
	return digests, nil
}

func readList(frame []byte) ([]writ.Digest, error) {
	var l list
	if err := cbor.Unmarshal(frame, &l); err != nil {
		return nil, err
	}
	if err := checkCount(len(l.Digests)); err != nil {
		return nil, err
	}
	digests := make([]writ.Digest, len(l.Digests))
	for i, d := range l.Digests {
		if len(d) != len(writ.Digest{}) {
			return nil, fmt.Errorf("a digest of %d bytes", len(d))
		}
		digests[i] = writ.Digest(d)
	}
	return digests, nil
}

// cache adds a list, replacing the oldest if there are too many. The caller holds mu.
func (o *Opener) cache(name sum, digests []writ.Digest) {
	if _, known := o.verified[name]; known {
		return // added concurrently
	}
	if o.verified == nil {
		o.verified = make(map[sum][]writ.Digest)
	}
	if len(o.order) < maxCachedLists {
		o.order = append(o.order, name)
	} else {
		delete(o.verified, o.order[o.next])
		o.order[o.next] = name
		o.next = (o.next + 1) % maxCachedLists
	}
	o.verified[name] = digests
}
