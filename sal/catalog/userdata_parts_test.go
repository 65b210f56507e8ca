package catalog

import (
	"encoding/base64"
	"strings"
	"testing"
)

// TestPartsOfUserDataAreChecked has MIME messages with one cloud-config. cloud-init ignores a part that is not valid YAML,
// and the machine starts without its settings.
func TestPartsOfUserDataAreChecked(t *testing.T) {
	const broken, fine = "#cloud-config\npackages: [a\n", "#cloud-config\npackages: [a]\n"
	part := func(header, body string) string { return "--b\n" + header + "\n\n" + body + "\n" }
	message := func(parts ...string) string {
		return "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=\"b\"\n\n" + strings.Join(parts, "") + "--b--\n"
	}
	script := part("Content-Type: text/x-shellscript", "#!/bin/sh\necho [a\n")
	for name, tt := range map[string]struct{ text, want string }{
		"fine":             {message(script, part("Content-Type: text/cloud-config", fine)), ""},
		"broken":           {message(script, part("Content-Type: text/cloud-config; charset=\"utf-8\"", broken)), "part 2 (text/cloud-config)"},
		"ends of lines":    {strings.ReplaceAll(message(part("Content-Type: text/cloud-config", broken)), "\n", "\r\n"), "part 1"},
		"plain text":       {message(part("Content-Type: text/plain", broken)), "not valid YAML"},
		"other plain text": {message(part("Content-Type: text/plain", "a: [b\n")), ""},
		"without header":   {message(part("Content-Type: text/cloud-config", "- a\n")), "it is a list"},
		"template":         {message(part("Content-Type: text/cloud-config", "## template: jinja\n#cloud-config\na: {{ v1.x }}\n")), ""},
		"base64":           {message(part("Content-Type: text/cloud-config\nContent-Transfer-Encoding: base64", base64.StdEncoding.EncodeToString([]byte(broken)))), "part 1"},
		"quoted":           {message(part("Content-Type: text/cloud-config\nContent-Transfer-Encoding: quoted-printable", "#cloud-config\na: =5B\n")), "part 1"},
		"nested":           {message(part("Content-Type: multipart/mixed; boundary=c", "--c\nContent-Type: text/cloud-config\n\n"+broken+"\n--c--")), "part 1"},
		"single":           {"Content-Type: text/cloud-config\n\n" + broken, "part 1"},
		"no message":       {"Content-Type", ""},
		"no boundary":      {"Content-Type: multipart/mixed\n\n" + broken, ""},
	} {
		got := uselessUserData(tt.text)
		if (got == "") != (tt.want == "") || !strings.Contains(got, tt.want) {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}
