package uki

import (
	"bytes"
	"debug/pe"

	"writ"
)

// Cmdline returns the kernel command line in an image.
func Cmdline(image []byte) (string, error) {
	bad := writ.Errorf(writ.CodeUsage, "this is not a unified kernel image").WithHint("`writ efi build` creates one")
	file, err := pe.NewFile(bytes.NewReader(image))
	if err != nil || file.Section(".linux") == nil || file.Section(".cmdline") == nil {
		return "", bad
	}
	section := file.Section(".cmdline")
	text, err := section.Data()
	if err != nil {
		return "", bad
	}
	return string(text[:min(len(text), int(section.VirtualSize))]), nil
}
