package cloudhypervisor

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"writ"
	"writ/internal/test/testenv"
	"writ/sal"
	"writ/sal/catalog"
	"writ/sal/saltest"
)

// handled is the result of cloud-init for user-data.
type handled struct {
	Types  []string       `json:"types"`
	Texts  []string       `json:"texts"`
	Config map[string]any `json:"config"`
}

// python returns the interpreter for modules of Debian.
func python(t *testing.T) string {
	t.Helper()
	found := testenv.Need(t, "python3")
	if _, err := os.Stat("/usr/bin/python3"); err == nil {
		return "/usr/bin/python3"
	}
	return found
}

// handle parses user-data with the real cloud-init.
func handle(t *testing.T, users ...[]byte) []handled {
	t.Helper()
	args := []string{"testdata/merge.py", filepath.Dir(filepath.Dir(testenv.Unpacked(t, testenv.CloudInit)))}
	dir := t.TempDir()
	for i, user := range users {
		path := filepath.Join(dir, strconv.Itoa(i))
		if err := os.WriteFile(path, user, 0o600); err != nil {
			t.Fatal(err)
		}
		args = append(args, path)
	}
	text, err := exec.Command(python(t), args...).Output()
	if failed, ok := errors.AsType[*exec.ExitError](err); ok {
		t.Fatalf("%v: %s", err, failed.Stderr)
	}
	var all []handled
	if err := errors.Join(err, json.Unmarshal(text, &all)); err != nil || len(all) != len(users) {
		t.Fatalf("%d answers, %v", len(all), err)
	}
	return all
}

// message returns a MIME message of parts, as cloud-init and Terraform write it.
func message(parts ...string) string {
	var b strings.Builder
	b.WriteString("Content-Type: multipart/mixed; boundary=\"===============42==\"\nMIME-Version: 1.0\nNumber-Attachments: 2\n\n")
	for i, p := range parts {
		kind := "cloud-config"
		if strings.HasPrefix(p, "#!") {
			kind = "x-shellscript"
		}
		fmt.Fprintf(&b, "--===============42==\nContent-Type: text/%s; charset=\"utf-8\"\nMIME-Version: 1.0\n"+
			"Content-Transfer-Encoding: base64\nContent-Disposition: attachment; filename=\"part-%d\"\n\n%s\n\n",
			kind, i, base64.StdEncoding.EncodeToString([]byte(p)))
	}
	b.WriteString("--===============42==--\n")
	return b.String()
}

func TestCloudInitHandlesUserDataWithEnv(t *testing.T) {
	const config = "#cloud-config\npackages: [nginx]\nwrite_files:\n- {path: /etc/motd, content: gr\u00fc\u00df dich \u20ac}\n"
	const script = "#!/bin/sh\necho \u00fc\n"
	var names []string
	var users [][]byte
	for name, given := range map[string]string{
		"a script":             script,
		"a config":             config,
		"a message":            message(config, script),
		"a message of CRLF":    strings.ReplaceAll(message(config, script), "\n", "\r\n"),
		"a message in a mbox":  "From nobody Sat Nov 28 12:00:00 2026\n" + message(config, script),
		"a single part":        "Content-Type: text/cloud-config\nMIME-Version: 1.0\n\n#cloud-config\npackages: [nginx]\n",
		"merge_how that drops": config + "merge_how: 'dict(replace)+list()+str()'\n",
		"merge_how of a list":  "#cloud-config\nmerge_how:\n- {name: list, settings: [replace]}\n- {name: dict, settings: [replace]}\nwrite_files:\n- {path: /a}\n",
		"merging parts":        message(config, "#cloud-config\nmerge_type: 'list(append)+dict(recurse_array)+str()'\npackages: [curl]\n"),
		"a template":           "## template: jinja\n#cloud-config\npackages: [nginx, '{{ v1.local_hostname }}']\n",
		"a template of CRLF":   "## template: jinja\r\n#cloud-config\r\npackages: [nginx]\r\n",
		"an archive":           "#cloud-config-archive\n- type: text/cloud-config\n  content: |\n    packages: [nginx]\n- |\n    #!/bin/sh\n    echo a\n",
		"a boothook":           "#cloud-boothook\n#!/bin/sh\necho a\n",
		"a config of CRLF":     "#cloud-config\r\npackages: [nginx]\r\n",
		"without a line end":   "#cloud-config\npackages: [nginx]",
		"an empty config":      "#cloud-config\n",
		"lines of dashes":      "#!/bin/sh\n--writ-user-data\n--writ-user-data---\n--writ-user-data--\n",
		"a dot and From":       "#!/bin/sh\n.\nFrom me\n\n.\n",
		"an indented config":   "\n\n  #cloud-config\npackages: [nginx]\n",
		"a message in a text":  "#!/bin/sh\ncat <<E\nMIME-Version: 1.0\n\nwrit-user-data\nE\n",
	} {
		args := &catalog.MachineCreate{CloudInit: catalog.PlainText(given)}
		alone, err := userData(args)
		if err != nil || string(alone) != given {
			t.Fatalf("%s alone is %q, %v", name, alone, err)
		}
		// YAML allows the last two only in escaped form.
		args.Env = map[string]catalog.Text{"A": catalog.PlainText("\u20ac\u0085\x7f")}
		both, err := userData(args)
		if err != nil {
			t.Fatal(err)
		}
		names, users = append(names, name), append(users, alone, both)
	}
	all := handle(t, users...)
	for i, name := range names {
		without, with := all[2*i], all[2*i+1]
		if want := append(slices.Clone(without.Types), "text/cloud-config"); !slices.Equal(with.Types, want) {
			t.Errorf("%s: the parts are %q, want %q", name, with.Types, want)
			continue
		}
		if diff := cmp.Diff(without.Texts, with.Texts[:len(without.Texts)]); diff != "" {
			t.Errorf("%s: other content: %s", name, diff)
		}
		files, _ := with.Config["write_files"].([]any)
		if len(files) == 0 {
			t.Errorf("%s: the environment is missing", name)
			continue
		}
		if last, _ := files[len(files)-1].(map[string]any); last["path"] != "/etc/environment" || last["content"] != "\nA='\u20ac\u0085\x7f'\n" {
			t.Errorf("%s: the last file is %v", name, last)
		}
		if with.Config["write_files"] = files[:len(files)-1]; len(files) == 1 {
			delete(with.Config, "write_files")
		}
		if diff := cmp.Diff(without.Config, with.Config); diff != "" {
			t.Errorf("%s: another config: %s", name, diff)
		}
	}
}

func TestEncodedPartsCanSetTheResolver(t *testing.T) {
	t.Parallel()
	for given, want := range map[string]bool{
		"#cloud-config\nmanage_resolv_conf: true\n":                                                     true,
		message("#!/bin/sh\n", "#cloud-config\nresolv_conf: {nameservers: [192.0.2.1]}\n"):              true,
		message("#cloud-config\npackages: []\n"):                                                        false,
		"Content-Type: multipart/mixed; boundary=x\nMIME-Version: 1.0\n\n--x\nContent-Type: multipart/": false,
	} {
		if got := setsResolver([]byte(given)); got != want {
			t.Errorf("%q: %v", given, got)
		}
	}
}

func TestHostNamesEndWithoutHyphens(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{"web": "web", "web--": "web", "1-": "1"} {
		r := &sal.Record[own]{Resource: saltest.Resource(writ.KindMachine, name)}
		var got struct {
			Name string `json:"local-hostname"`
		}
		if err := json.Unmarshal(metaData(new(catalog.MachineCreate), r), &got); err != nil || got.Name != want {
			t.Errorf("%s is called %q, %v, want %q", name, got.Name, err, want)
		}
	}
}

// The catalogue refuses an environment beside user-data that cloud-init ignores.
func TestCloudInitReadsTheKnownHeaders(t *testing.T) {
	headers := map[string]bool{
		"#cloud-config\n": true, "\t#Cloud-Config\n": true, "#cloud-config-archive\n[]": true, "#!/bin/sh\n": true,
		"#cloud-boothook\n": true, "## template: jinja\n#cloud-config\n": true, "#part-handler\n": true,
		"#cloud_config\n": false, "# cloud-config\n": false, "\ufeff#cloud-config\n": false, "machine: {}\n": false,
		`{"ignition":{}}`: false, "# /bin/sh\n": false,
	}
	var texts []string
	var users [][]byte
	for text := range headers {
		texts, users = append(texts, text), append(users, []byte(text))
	}
	for i, got := range handle(t, users...) {
		reads := !slices.ContainsFunc(got.Types, func(kind string) bool { return strings.HasPrefix(kind, "ignored") })
		if reads != headers[texts[i]] || reads != (catalog.UselessEnvironment(texts[i]) == "") {
			t.Errorf("%q: cloud-init has %q, and the catalogue refuses env: %q", texts[i], got.Types,
				catalog.UselessEnvironment(texts[i]))
		}
	}
}
