package uki

import (
	"testing"

	"writ"
)

func TestOtherFilesHaveNoCommandLine(t *testing.T) {
	for _, image := range [][]byte{nil, []byte("MZ"), []byte("#!ipxe")} {
		if text, err := Cmdline(image); err == nil || writ.AsError(err).Hint == "" {
			t.Errorf("%q has %q, %v", image, text, err)
		}
	}
}
