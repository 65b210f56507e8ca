package image

import (
	"encoding/binary"
	"strings"
	"testing"

	"writ"
	"writ/internal/test/testenv"
)

// Each qcow2 disk that cannot be used has a remedy.
func TestUnusableQcow2IsExplained(t *testing.T) {
	qemu := testenv.Need(t, "qemu-img")
	good := qcow2(t, qemu, "-f", "qcow2", "1M")[:headerBytes]
	if err := checkHeader(good); err != nil {
		t.Fatal(err)
	}
	changed := func(at int, value uint64, bytes int) []byte {
		header := append([]byte{}, good...)
		text := binary.BigEndian.AppendUint64(nil, value)
		copy(header[at:], text[len(text)-bytes:])
		return header
	}
	for _, tt := range []struct {
		header     []byte
		says, hint string
	}{
		{
			qcow2(t, qemu, "--object", "secret,id=k,data=secret12", "-f", "qcow2", "-o", "encrypt.format=luks,encrypt.key-secret=k", "1M"),
			"encrypted", "encrypt.key-secret",
		},
		{changed(4, 1, 4), "its version is 1", "qemu-img convert"},
		{changed(24, 1<<60, 8), "larger than any volume", "resize --shrink"},
	} {
		err := checkHeader(tt.header[:headerBytes])
		if e := writ.AsError(err); e.Code != writ.CodeArgumentsInvalid || !strings.Contains(err.Error(), tt.says) || !strings.Contains(e.Hint, tt.hint) {
			t.Errorf("%v (%s, hint %q), want %q and %q", err, e.Code, e.Hint, tt.says, tt.hint)
		}
	}
}
