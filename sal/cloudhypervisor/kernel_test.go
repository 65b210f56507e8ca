package cloudhypervisor

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"writ/internal/test/vmmstub/guest"
)

// Only the header of a kernel counts; the rest of the file is ignored.
func TestKernelsAreKnownByTheirHeaders(t *testing.T) {
	vmlinux, err := os.ReadFile(guest.Tiny(t, guest.Wait))
	if err != nil {
		t.Fatal(err)
	}
	bare := bytes.ReplaceAll(vmlinux, []byte("Xen\x00"), []byte("Net\x00"))
	bz := append(make([]byte, 0x202), "HdrS and more"...)
	for name, tt := range map[string]struct {
		text string
		want bool
	}{
		"a vmlinux with the note": {string(vmlinux), true},
		"one without":             {string(bare), false},
		"a bzImage":               {string(bz), true},
		"one that is cut off":     {string(bz[:0x204]), false},
		"nothing":                 {"", false},
		"a text":                  {strings.Repeat("a kernel\n", 1000), false},
		"half a vmlinux":          {string(vmlinux[:70]), false},
	} {
		if got := bootable(strings.NewReader(tt.text), "amd64"); got != tt.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	image := string(make([]byte, 56)) + "ARM\x64"
	for name, tt := range map[string]struct {
		text string
		want bool
	}{
		"an Image":             {image + "and more", true},
		"one that is cut off":  {image[:59], false},
		"nothing":              {"", false},
		"one of amd64":         {string(bz), false},
		"a vmlinux":            {string(vmlinux), false},
		"one that is squeezed": {"\x1f\x8b\x08" + strings.Repeat("a", 100), false},
	} {
		if got := bootable(strings.NewReader(tt.text), "arm64"); got != tt.want {
			t.Errorf("%s on arm64: %v", name, got)
		}
	}
}

func FuzzKernelsAreKnownByTheirHeaders(f *testing.F) {
	f.Add([]byte("\x7fELF\x02\x01"))
	f.Fuzz(func(t *testing.T, text []byte) {
		bootable(bytes.NewReader(text), "amd64")
		pvhAmong(text)
	})
}
