package cloudhypervisor

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"writ"
	"writ/internal/test/testenv"
	"writ/sal/catalog"
)

// environmentFile returns the text that cloud-init appends to /etc/environment.
func environmentFile(t *testing.T, env map[string]string) (string, error) {
	t.Helper()
	texts := map[string]catalog.Text{}
	for name, value := range env {
		texts[name] = catalog.PlainText(value)
	}
	user, err := environment(texts)
	if err != nil {
		return "", err
	}
	text, isConfig := strings.CutPrefix(string(user), "#cloud-config\n")
	var config struct {
		Files []struct {
			Path, Content string
			Append        bool
		} `json:"write_files"`
	}
	if err := json.Unmarshal([]byte(text), &config); err != nil || !isConfig || len(config.Files) != 1 {
		t.Fatalf("the environment is %q, %v", user, err)
	}
	f := config.Files[0]
	if f.Path != "/etc/environment" || !f.Append {
		t.Fatalf("the file is %+v", f)
	}
	return f.Content, nil
}

// session returns the environment of a session, as the real pam_env reads it from a file.
func session(t *testing.T, file string) map[string]string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "environment")
	if err := os.WriteFile(path, []byte(file), 0o644); err != nil {
		t.Fatal(err)
	}
	text, err := exec.Command(testenv.Need(t, "python3"), "testdata/session.py", path).Output()
	if failed, ok := errors.AsType[*exec.ExitError](err); ok {
		t.Fatalf("%v: %s", err, failed.Stderr)
	}
	var got map[string]string
	if err := errors.Join(err, json.Unmarshal(text, &got)); err != nil {
		t.Fatal(err)
	}
	return got
}

// values are difficult to encode in a file of variables.
var values = []string{
	"", "plain", "two words", " both ends ", "pa$$w0rd", "${HOME}", "$(id)", "`id`", `a\b`, `end\`, `\`, `\"`, "it's", "'", "''", `"`, `""`, `say "hi"`,
	`it's "both"`, `'quoted'`, `"quoted"`, `'x"`, "a=b", "=", "export A=1", "tab\tend", "\u00fc\u20ac\U0001f600", "\x7f\u0085\u2028", "*?[]{}~!&|;<>()",
	strings.Repeat("x", maxVariable-len("V00=")-2), "-----BEGIN", `{"json": ["a", 'b']}`, "@{HOME}", "%h",
}

func TestSessionsGetEachValueAsGiven(t *testing.T) {
	t.Parallel()
	env := map[string]string{}
	for i, value := range values {
		env["V"+string(rune('0'+i/10))+string(rune('0'+i%10))] = value
	}
	content, err := environmentFile(t, env)
	if err != nil {
		t.Fatal(err)
	}
	got := session(t, "LANG=C.UTF-8\nBEFORE=\"yes\""+content) // the last line of the image's own file has no newline
	env["LANG"], env["BEFORE"] = "C.UTF-8", "yes"
	for name, want := range env {
		if value, ok := got[name]; value != want || !ok {
			t.Errorf("a session has %s=%q, want %q", name, value, want)
		}
	}
	if len(got) != len(env) {
		t.Errorf("a session has %d variables, want %d", len(got), len(env))
	}
}

func TestUndeliverableValuesAreRefused(t *testing.T) {
	t.Parallel()
	for _, value := range []string{"tr#b4dor", "#", "x\nLD_PRELOAD=/evil", "x\r\ny", "a\x00b", strings.Repeat("x", maxVariable)} {
		_, err := environmentFile(t, map[string]string{"GOOD": "1", "EVIL": value})
		e := writ.AsError(err)
		if writ.CodeOf(err) != writ.CodeArgumentsInvalid || !strings.Contains(e.Message, `"EVIL"`) || e.Hint == "" || strings.Contains(e.Message, value) && value != "#" {
			t.Errorf("%.20q: %v", value, err)
		}
	}
}
