package mycelium

import (
	"crypto/ecdh"
	"crypto/rand"
	"errors"
	"io/fs"
	"math/bits"
	"net/netip"
	"os"
	"path/filepath"

	"lukechampine.com/blake3"

	"writ"
	"writ/sal"
)

// Range is where all addresses of the overlay are.
var Range = netip.MustParsePrefix("400::/7")

// Address is that of the node with a public key: the first 16 bytes of its BLAKE3 digest, of which the first byte becomes one of the two
// that the overlay's range has.
func Address(public *ecdh.PublicKey) netip.Addr {
	digest := blake3.Sum256(public.Bytes())
	a := [16]byte(digest[:16])
	a[0] = 4 | byte(bits.OnesCount8(a[0])&1)
	return netip.AddrFrom16(a)
}

// Subnet is what the overlay leads to a node: the /64 of its address.
func Subnet(node netip.Addr) netip.Prefix { return netip.PrefixFrom(node, 64).Masked() }

// LoadKey returns the private key in a file, as the daemon keeps it: 32 bytes. Where there is none it makes one. Whoever reads that file
// is this node. Step is called before every change of the disk.
func LoadKey(path string, step func(name string)) (*ecdh.PrivateKey, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		text, err = newKey(path, step)
	}
	if err != nil {
		return nil, sal.HostError("read the key of the overlay", err)
	}
	key, err := ecdh.X25519().NewPrivateKey(text)
	if err != nil {
		return nil, writ.Errorf(writ.CodeKeyUnusable, "%s is not a key of the overlay: it has %d bytes instead of 32", path, len(text)).
			WithHint("bring the file back from a backup; without it this node gets other addresses: then remove it")
	}
	return key, nil
}

// newKey makes a key, as a whole or not at all, that only its owner may read.
func newKey(path string, step func(name string)) ([]byte, error) {
	key, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	if err := sal.MakeDir(filepath.Dir(path)); err != nil {
		return nil, err
	}
	step("write the key")
	f, err := os.OpenFile(path+".tmp", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, err
	}
	_, err = f.Write(key.Bytes())
	if err == nil {
		err = f.Sync()
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return nil, err
	}
	step("name the key")
	if err := os.Rename(path+".tmp", path); err != nil {
		return nil, err
	}
	return key.Bytes(), sal.SyncDir(filepath.Dir(path))
}
