package catalog

import (
	"encoding/base64"
	"slices"
	"strings"

	"writ/internal/lazyregexp"
	"writ/internal/yamltext"
)

// misspeltHeader matches a first line that looks like the header of a cloud-config, but that cloud-init treats as a
// comment.
var misspeltHeader = lazyregexp.New(`(?i)^#(?:[ \t]+cloud[-_ ]?config|cloud[_ ]?config)`)

// configHeader matches the first line of a cloud-config. cloud-init ignores its case and white space before it.
var configHeader = lazyregexp.New(`(?i)^#cloud-config(\s|$)`)

// headers lists the starts of texts that cloud-init reads, in lower case.
var headers = []string{"#cloud-config", "#!", "#include", "#part-handler", "#cloud-boothook", "## template: jinja"}

// byteOrderMark is a character that some editors write at the start of a text.
const byteOrderMark = "\ufeff"

// uselessUserData checks the user-data of a machine. It accepts text without a header of cloud-init, because other
// programs in guests may read it.
func uselessUserData(s string) string {
	first, _, _ := strings.Cut(strings.TrimLeft(s, " \t\r\n"), "\n")
	switch {
	case strings.HasPrefix(s, byteOrderMark) && readByCloudInit(s[len(byteOrderMark):]):
		return "cloud-init ignores it, because it begins with a byte order mark: save it as UTF-8 without one"
	case misspeltHeader.MatchString(first):
		return "cloud-init ignores it: its first line must be #cloud-config, with a hyphen and without a space after #"
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

// readByCloudInit reports whether cloud-init recognises a text by its start. Other programs in guests may read other
// texts.
func readByCloudInit(s string) bool {
	start := strings.ToLower(s[:min(len(s), 4096)])
	if isMessage(s) || strings.Contains(start, "mime-version:") { // at any place, as in cloud-init
		return true
	}
	start = strings.TrimLeft(start, " \t\r\n")
	return slices.ContainsFunc(headers, func(h string) bool { return strings.HasPrefix(start, h) })
}

// UselessEnvironment returns the reason if a machine with this cloud_init does not get its environment, else "".
func UselessEnvironment(userData string) string {
	if userData == "" || readByCloudInit(userData) {
		return ""
	}
	return "only cloud-init sets it, and adding it would change this cloud_init, which is for another program: " +
		"begin cloud_init with #cloud-config or #!"
}

// uselessEnv checks the environment of a machine together with its cloud_init.
func uselessEnv(args map[string]any) string {
	if env, ok := args["env"].(map[string]any); !ok || len(env) == 0 {
		return ""
	}
	text, _ := args["cloud_init"].(string) // a secret is checked on the node
	if why := UselessEnvironment(text); why != "" {
		return "has no effect: " + why
	}
	return ""
}

// encodedUserData reports whether a text is user-data in base64, compressed or not.
func encodedUserData(s string) bool {
	plain, err := base64.StdEncoding.DecodeString(strings.TrimSpace(s)) // ignores line breaks
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
