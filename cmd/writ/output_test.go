package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/oasdiff/yaml"

	"writ"
	"writ/cmd/writ/internal/cli"
	"writ/cmd/writ/internal/terminal"
	"writ/coord/dashboard/markup"
	"writ/coord/webhook"
	"writ/internal/hidden"
)

// unsafe has a character of each kind that reorders, hides or controls text, and texts that look like escapes.
const unsafe = "a\u202eb\u200bc\u2066d\u200fe\ufefff\u00adg\u061ch\u3164i\u2800j\U000e0041k\u2028l\u0085m\x7fn\x1b[31mo\u009bp\x01q\r\\u202e\\x010000202e\\x01"

// TestOutputHasNoUnsafeCharacters prints a value in every format and through every other output.
func TestOutputHasNoUnsafeCharacters(t *testing.T) {
	dir := t.TempDir()
	file := func(name string) *os.File {
		f, err := os.Create(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		return f
	}
	text := func(name string) string {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	type row struct {
		Name string `json:"name"`
	}
	rows := []row{{unsafe}}
	view := terminal.List(rows, rows, func(r row) string { return r.Name }, cli.Column("NAME", func(r row) string { return r.Name }))
	raw := view
	raw.Text, raw.Markdown = func(bool) string { return unsafe }, func() string { return unsafe }
	shown := map[string]string{}
	for _, format := range terminal.Formats {
		for kind, view := range map[string]terminal.View{"list": view, "text": raw} {
			if kind == "list" && format == terminal.Markdown {
				continue
			}
			name := string(format) + "-" + kind
			term := terminal.New(file("in"), file(name), file(name+"-err"), nil)
			term.Format = format
			if err := term.Print(view); err != nil {
				t.Fatal(err)
			}
			term.Fail(writ.Errorf(writ.CodeConflict, "%s", unsafe).WithHint("%s", unsafe))
			term.Note("%s", unsafe)
			term.Warn("%s", unsafe)
			shown[name], shown[name+"-err"] = text(name), text(name+"-err")
		}
	}
	env := newEnv(terminal.New(file("in"), file("lines"), file("logs"), nil))
	if err := env.PrintLine(rows[0]); err != nil {
		t.Fatal(err)
	}
	for _, format := range []string{"text", "json"} {
		log, err := cli.NewLog(env, cli.LogFlags{Level: "info", Format: format})
		if err != nil {
			t.Fatal(err)
		}
		log.Info(unsafe, "name", unsafe, "word", "a\u3164b")
	}
	shown["lines"], shown["logs"] = text("lines"), text("logs")
	shown["completion"] = strings.Join(cli.SafeCompletions([]string{unsafe, "web\t" + unsafe}), "\n")
	shown["dashboard"] = markup.Render(markup.P(markup.Title(unsafe), markup.Text(unsafe))).String()
	shown["webhook"] = sentByWebhook(t, unsafe)

	for name, text := range shown {
		text = strings.ReplaceAll(text, "\r", "") // in scripts on the dashboard
		if i := strings.IndexFunc(text, hidden.IsUnsafe); i >= 0 || text == "" {
			t.Errorf("%s has an unsafe character at %d: %q", name, i, text)
		}
	}
	for name, decode := range map[string]func([]byte, any) error{
		"json-list": json.Unmarshal, "yaml-list": func(b []byte, v any) error { _, err := yaml.Unmarshal(b, v, yaml.DecodeOpts{}); return err }, "lines": func(b []byte, v any) error { return json.Unmarshal(fmt.Appendf(nil, "[%s]", b), v) },
	} {
		var back []row
		if err := decode([]byte(shown[name]), &back); err != nil || len(back) != 1 || back[0].Name != unsafe {
			t.Errorf("%s decodes as %q, %v, want %q:\n%s", name, back, err, unsafe, shown[name])
		}
	}
}

// sentByWebhook returns the body of a message about a node with this name.
func sentByWebhook(t *testing.T, name string) (body string) {
	t.Helper()
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		text := make([]byte, 1<<16)
		n, _ := r.Body.Read(text)
		body = string(text[:n])
	}))
	defer receiver.Close()
	sender := &webhook.Sender{Version: "test", Now: time.Now}
	if err := sender.Send(t.Context(), &webhook.Endpoint{Name: "ops", URL: receiver.URL}, &webhook.Message{ID: "msg_1", Type: webhook.NodeLost, Data: webhook.Node{Name: name}}); err != nil {
		t.Fatal(err)
	}
	return body
}
