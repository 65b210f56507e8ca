package mycelium

import (
	"crypto/ecdh"
	"crypto/rand"
	"errors"
	"io/fs"
	"math/bits"
	"net/netip"
	"os"

	"lukechampine.com/blake3"

	"writ"
	"writ/sal"
)

// Range contains all addresses of the overlay.
var Range = netip.MustParsePrefix("400::/7")

// Address returns the address of the node with a public key: the first 16 bytes of the key's BLAKE3 digest, with the
// first byte changed so that the address is in Range.
func Address(public *ecdh.PublicKey) netip.Addr {
	digest := blake3.Sum256(public.Bytes())
	a := [16]byte(digest[:16])
	a[0] = 4 | byte(bits.OnesCount8(a[0])&1)
	return netip.AddrFrom16(a)
}

// Subnet returns the range that the overlay routes to a node: the /64 of its address.
func Subnet(node netip.Addr) netip.Prefix { return netip.PrefixFrom(node, 64).Masked() }

// LoadKey reads the private key from a file in the daemon's format, 32 bytes. If the file does not exist, it generates
// a key. It returns writ.CodeKeyUnusable if the file has another length. The key is the identity of the node. step is
// called before each change of the disk.
func LoadKey(path string, step func(name string)) (*ecdh.PrivateKey, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		text, err = newKey(path, step)
	}
	if err != nil {
		return nil, sal.HostError("read the overlay key", err)
	}
	key, err := ecdh.X25519().NewPrivateKey(text)
	if err != nil {
		return nil, writ.Errorf(writ.CodeKeyUnusable, "%s is not an overlay key: it has %d bytes instead of 32", path,
			len(text)).
			WithHint("restore the file from a backup; or remove it, and the node gets new addresses")
	}
	return key, nil
}

// newKey generates a key and writes it atomically, readable only by its owner.
func newKey(path string, step func(name string)) ([]byte, error) {
	key, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	step("write the key")
	return key.Bytes(), sal.WriteFile(path, 0o600, key.Bytes())
}
