package identity_test

import (
	"crypto/ed25519"
	"fmt"

	"writ/identity"
)

// A signature is valid for one purpose only: the signature of a script never verifies as that of a statement.
func ExampleVerifySignature() {
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	signer := identity.NewSigner(key)
	text := []byte("what is signed\n")
	armored, err := signer.Sign(identity.ScriptNamespace, text)
	if err != nil {
		fmt.Println(err)
		return
	}

	who, err := identity.VerifySignature(identity.ScriptNamespace, text, armored)
	fmt.Println(err, string(who.Marshal()) == string(signer.PublicKey().Marshal()))
	_, err = identity.VerifySignature(identity.StatementNamespace, text, armored)
	fmt.Println(err)
	_, err = identity.VerifySignature(identity.ScriptNamespace, []byte("something else\n"), armored)
	fmt.Println(err)
	// Output:
	// <nil> true
	// the text was signed for "writ-script-v1", not for "writ-statement-v1"
	// the signature does not fit the text
}

// A target names a resource, or a prefix of names, that a signed script may delete or overwrite.
func ExampleCovered() {
	targets := []string{"volume/web-*", "machine/db"}
	fmt.Println(identity.Covered(targets, "volume", "web-0"))
	fmt.Println(identity.Covered(targets, "machine", "web-0"))
	fmt.Println(identity.Covered(targets, "machine", "db"))
	// Output:
	// true
	// false
	// true
}
