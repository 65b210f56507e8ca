package catalog

import (
	"encoding/base64"
	"regexp"
	"strings"

	"writ/internal/yamltext"
)

// spacedHeader matches a first line that people take for the header of a cloud-config, and that cloud-init takes for a
// comment.
var spacedHeader = regexp.MustCompile(`(?i)^#[ \t]+cloud-?config`)

// configHeader matches the first line of a cloud-config. cloud-init ignores its case and white space before it.
var configHeader = regexp.MustCompile(`(?i)^#cloud-config(\s|$)`)

// uselessUserData checks the user-data of a machine. Text without a header of cloud-init is accepted: other programs of
// guests read it.
func uselessUserData(s string) string {
	first, _, _ := strings.Cut(strings.TrimLeft(s, " \t\r\n"), "\n")
	switch {
	case spacedHeader.MatchString(first):
		return "cloud-init ignores it: its first line must be #cloud-config, without a space after #"
	case encodedUserData(s):
		return "it is encoded in base64, which cloud-init does not decode here: give the text itself " +
			"(in Terraform gzip = false and base64_encode = false)"
	case configHeader.MatchString(first):
		return uselessCloudConfig(s)
	case isMessage(s):
		return uselessParts(s)
	}
	return ""
}

// uselessCloudConfig checks a text that cloud-init reads as YAML.
func uselessCloudConfig(s string) string {
	shape, err := yamltext.Shape([]byte(s))
	switch {
	case err != nil:
		return "cloud-init ignores it, because it is not valid YAML: " + strings.TrimPrefix(err.Error(), "yaml: ")
	case shape != "map" && shape != "":
		return "cloud-init ignores it, because it is a " + shape + ", and a cloud-config has names with values"
	}
	return ""
}

// encodedUserData reports whether a text is user-data in base64, compressed or not.
func encodedUserData(s string) bool {
	plain, err := base64.StdEncoding.DecodeString(strings.TrimSpace(s)) // skips ends of lines
	if err != nil {
		return false
	}
	for _, header := range []string{
		"\x1f\x8b", "#cloud-config", "#!", "## template:", "MIME-Version:", "Content-Type:",
	} {
		if strings.HasPrefix(string(plain), header) {
			return true
		}
	}
	return false
}
