package program

import (
	"crypto/ed25519"
	"testing"

	"writ"
	"writ/identity/sshsig"
)

// A known seal saves the verification of a signature, so it covers the text and each byte of the signature.
func TestSealCoversTextAndSignature(t *testing.T) {
	text := []byte("a text\n")
	armored, err := sshsig.NewSigner(ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))).Sign(sshsig.ScriptNamespace, text)
	if err != nil {
		t.Fatal(err)
	}
	signed := sshsig.Join(text, armored)
	seal := SealOf(writ.DigestOf(text), signed)
	if SealOf(writ.DigestOf([]byte("another text\n")), sshsig.Join([]byte("another text\n"), armored)) == seal {
		t.Error("another text has the same seal")
	}
	for i := len(text); i < len(signed); i++ {
		other := append([]byte(nil), signed...)
		if other[i] ^= 1; SealOf(writ.DigestOf(text), other) == seal {
			t.Errorf("another byte %d of the signature has the same seal", i-len(text))
		}
	}
}
