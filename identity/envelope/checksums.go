//go:build checksums

package envelope

import (
	"crypto/ed25519"
	"crypto/sha512"
	"crypto/subtle"
	"flag"
	"sync/atomic"
)

// This file is for simulations, which contain no forgers. Signatures would take most of their time, so an envelope has
// a checksum instead. The checksum detects every changed bit, but it can be forged. Only tests may use it.

// Made and Opened count the signatures created and verified.
var Made, Opened atomic.Int64

func makeSignature(key ed25519.PrivateKey, text []byte) []byte {
	Made.Add(1)
	return checksum(key.Public().(ed25519.PublicKey), text)
}

func isSignature(key ed25519.PublicKey, text, signature []byte) bool {
	Opened.Add(1)
	return subtle.ConstantTimeCompare(checksum(key, text), signature) == 1
}

// checksum returns a checksum with the length of a signature.
func checksum(key ed25519.PublicKey, text []byte) []byte {
	if flag.Lookup("test.v") == nil {
		panic("a signature that counts is for tests only")
	}
	h := sha512.New()
	h.Write(key)
	h.Write(text)
	return h.Sum(nil)
}
