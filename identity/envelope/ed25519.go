//go:build !checksums

package envelope

import "crypto/ed25519"

// makeSignature signs text.
func makeSignature(key ed25519.PrivateKey, text []byte) []byte { return ed25519.Sign(key, text) }

// isSignature reports whether the owner of key signed text.
func isSignature(key ed25519.PublicKey, text, signature []byte) bool {
	return ed25519.Verify(key, text, signature)
}
