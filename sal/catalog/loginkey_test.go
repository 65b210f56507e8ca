package catalog

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/base64"
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"

	"writ/internal/test/testenv"
)

// rsaKey returns a line with an RSA key of a size. Its private key does not exist.
func rsaKey(t *testing.T, bits int, exponent int64) string {
	t.Helper()
	n, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), uint(bits-1)))
	if err != nil {
		t.Fatal(err)
	}
	n.SetBit(n.SetBit(n, bits-1, 1), 0, 1)
	return line(ssh.KeyAlgoRSA, struct {
		Name string
		E, N *big.Int
	}{ssh.KeyAlgoRSA, big.NewInt(exponent), n})
}

// ecdsaKey returns a line with a point on its curve, or with an invalid point.
func ecdsaKey(t *testing.T, valid bool) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	point, err := key.PublicKey.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	if !valid {
		point[len(point)-1] ^= 1
	}
	return line(ssh.KeyAlgoECDSA256, struct {
		Name, Curve string
		Point       []byte
	}{ssh.KeyAlgoECDSA256, "nistp256", point})
}

func line(algorithm string, key any) string {
	return algorithm + " " + base64.StdEncoding.EncodeToString(ssh.Marshal(key))
}

func TestLoginKeysAreThoseThatOpenSSHReads(t *testing.T) {
	keygen := testenv.Need(t, "ssh-keygen")
	for name, key := range map[string]string{
		"ed25519":             loginKey,
		"ed25519 + comment":   loginKey + "  a@b  \"c\\ # é",
		"ed25519 of 31 bytes": line(ssh.KeyAlgoED25519, struct{ Name, Key string }{ssh.KeyAlgoED25519, strings.Repeat("k", 31)}),
		"trailing bytes":      line(ssh.KeyAlgoED25519, struct{ Name, Key, More string }{ssh.KeyAlgoED25519, strings.Repeat("k", 32), "more"}),
		"without padding":     strings.TrimRight(rsaKey(t, 2056, 65537), "="),
		"RSA 768":             rsaKey(t, 768, 65537),
		"RSA 1023":            rsaKey(t, 1023, 65537),
		"RSA 1024":            rsaKey(t, 1024, 65537),
		"RSA 2048":            rsaKey(t, 2048, 65537),
		"RSA 4096":            rsaKey(t, 4096, 3),
		"RSA 8192":            rsaKey(t, 8192, 65537),
		"RSA 16384":           rsaKey(t, 16384, 65537),
		"RSA 16392":           rsaKey(t, 16392, 65537),
		"ECDSA":               ecdsaKey(t, true),
		"ECDSA beside":        ecdsaKey(t, false),
	} {
		path := filepath.Join(t.TempDir(), "key")
		if err := os.WriteFile(path, []byte(key+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		said, err := exec.Command(keygen, "-l", "-f", path).CombinedOutput()
		accepted := forms["sshkey"].matches(key) && uselessLoginKey(key) == ""
		if accepted != (err == nil) {
			t.Errorf("%s: accepted %v, but ssh-keygen says %v: %s", name, accepted, err, said)
		}
	}
}
