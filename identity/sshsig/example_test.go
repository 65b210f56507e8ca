package sshsig_test

import (
	"crypto/ed25519"
	"fmt"

	"writ/identity/sshsig"
)

// A signature is valid for one purpose only: the signature of a script never verifies as the signature of a statement.
func ExampleVerify() {
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	signer := sshsig.NewSigner(key)
	text := []byte("what is signed\n")
	armored, err := signer.Sign(sshsig.ScriptNamespace, text)
	if err != nil {
		fmt.Println(err)
		return
	}

	who, err := sshsig.Verify(sshsig.ScriptNamespace, text, armored)
	fmt.Println(err, string(who.Marshal()) == string(signer.PublicKey().Marshal()))
	_, err = sshsig.Verify(sshsig.StatementNamespace, text, armored)
	fmt.Println(err)
	_, err = sshsig.Verify(sshsig.ScriptNamespace, []byte("something else\n"), armored)
	fmt.Println(err)
	// Output:
	// <nil> true
	// the text was signed for "writ-script-v1", not for "writ-statement-v1"
	// the signature does not match the text
}
