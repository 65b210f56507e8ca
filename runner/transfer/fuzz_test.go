package transfer

import (
	"bytes"
	"testing"
)

// FuzzReceive parses input from unauthenticated connections. Accepted input must equal the encoding of the request.
func FuzzReceive(f *testing.F) {
	for _, r := range []request{{}, {Grant: []byte("signed"), Snapshot: "monday", Edition: "e", Offset: 1 << 40}, {Done: true}} {
		var b bytes.Buffer
		if err := send(&b, r); err != nil {
			f.Fatal(err)
		}
		f.Add(b.Bytes())
	}
	f.Add([]byte{0, 0, 0x40, 1})
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0xa0})
	f.Fuzz(func(t *testing.T, text []byte) {
		var r request
		if err := receive(bytes.NewReader(text), &r); err != nil {
			return
		}
		var again bytes.Buffer
		if err := send(&again, r); err != nil {
			t.Fatal(err)
		}
		if !bytes.HasPrefix(text, again.Bytes()) {
			t.Errorf("%x was read, but encodes as %x", text, again.Bytes())
		}
	})
}
