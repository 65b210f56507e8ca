package sshsig

import (
	"bytes"
	"testing"
)

// FuzzSignature checks that the parser accepts exactly the signatures that this package writes.
func FuzzSignature(f *testing.F) {
	text := []byte("text")
	for _, s := range []Signer{testSigner("alice"), securityKey("carol"), certify(f, "forge", "a job", nil)} {
		armored, err := s.Sign(ScriptNamespace, text)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(armored)
	}
	f.Add([]byte(armorBegin + armorEnd))
	f.Fuzz(func(t *testing.T, armored []byte) {
		s, err := Parse(ScriptNamespace, armored)
		if err != nil {
			return
		}
		if again := Armor(s.Key, s.namespace, s.Value); !bytes.Equal(again, armored) {
			t.Fatalf("accepted %q, would sig_write %q", armored, again)
		}
		_ = s.Verify(text)
	})
}
