package envelope

import (
	"bytes"
	"crypto/ed25519"
	"encoding/json"
	"flag"
	"os"
	"testing"

	"writ"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// vector is a test vector for implementations in other languages.
type vector struct {
	Kind     Kind         `json:"kind"`
	Public   []byte       `json:"public"`   // Ed25519 public key
	Envelope []byte       `json:"envelope"` // base64, as in a coordinator's answers
	Record   writ.Summary `json:"record"`
}

// The test vector in the documentation must match the output of this program.
func TestVectorForOtherLanguagesIsCurrent(t *testing.T) {
	const path = "testdata/summary.json"
	key := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{7}, ed25519.SeedSize))
	want := vector{Kind: Summary, Public: key.Public().(ed25519.PublicKey), Record: writ.Summary{
		Run: writ.RunIDOf(writ.DigestOf([]byte("payload"))), Datacenter: "0192f6c2-0000-7000-8000-00000000000a", Payload: writ.DigestOf([]byte("payload")),
		State: writ.RunSucceeded, Output: map[string]any{"count": int64(-300), "said": "pong é", "all": []any{true, "b"}}, Calls: 2, Results: writ.DigestOf(nil), Ended: 1_795_000_000_123,
	}}
	var err error
	if want.Envelope, err = Sign(Summary, key, want.Record); err != nil {
		t.Fatal(err)
	}
	text, err := json.MarshalIndent(want, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	text = append(text, '\n')
	if *update {
		if err := os.WriteFile(path, text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if golden, err := os.ReadFile(path); err != nil || !bytes.Equal(golden, text) {
		t.Errorf("%s differs from the signed bytes: %v", path, err)
	}
	if got, _, err := Open[writ.Summary](Summary, want.Envelope, Only(want.Public)); err != nil || len(got) != 1 || got[0].Output["said"] != "pong é" {
		t.Errorf("the vector opens as %+v, %v", got, err)
	}
}
