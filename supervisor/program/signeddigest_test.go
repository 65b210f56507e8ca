package program

import (
	"crypto/ed25519"
	"testing"

	"writ"
	"writ/identity/sshsig"
)

// A known digest saves the verification of a signature, so it covers the text and each byte of the signature.
func TestSignedDigestCoversTextAndSignature(t *testing.T) {
	text := []byte("a text\n")
	armored, err := sshsig.NewSigner(ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))).Sign(sshsig.ScriptNamespace, text)
	if err != nil {
		t.Fatal(err)
	}
	signed := sshsig.Join(text, armored)
	known := SignedDigestOf(writ.DigestOf(text), signed)
	if SignedDigestOf(writ.DigestOf([]byte("another text\n")), sshsig.Join([]byte("another text\n"), armored)) == known {
		t.Error("another text has the same digest")
	}
	for i := len(text); i < len(signed); i++ {
		other := append([]byte(nil), signed...)
		if other[i] ^= 1; SignedDigestOf(writ.DigestOf(text), other) == known {
			t.Errorf("another byte %d of the signature has the same digest", i-len(text))
		}
	}
}
