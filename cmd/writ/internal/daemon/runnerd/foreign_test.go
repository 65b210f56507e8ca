package runnerd

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"writ"
	"writ/cmd/writ/internal/daemon/internal/test/daemontest"
	"writ/runner/member"
)

// By the records of another node, drivers would start and delete that node's resources here.
func TestForeignDriverRecordsAreRefused(t *testing.T) {
	const node, other = "0192f6c2-0000-7000-8000-000000000001", "0192f6c2-0000-7000-8000-000000000002"
	for name, tt := range map[string]struct {
		node, owner string
		want        writ.Code
	}{
		"its own":            {node, node, writ.CodeListenRefused}, // the check after this one
		"without an owner":   {node, "", writ.CodeListenRefused},
		"of another node":    {node, other, writ.CodeDataIncomplete},
		"before it joins":    {"", other, writ.CodeDataIncomplete},
		"with a damaged one": {node, "{", writ.CodeDataIncomplete},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			write := func(file, text string) {
				if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, file)), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if tt.node != "" {
				if _, err := member.Key(dir); err != nil {
					t.Fatal(err)
				}
				write("age.key", "only its existence is checked here")
				write("member.json", `{"node": "`+tt.node+`"}`)
			}
			if tt.owner != "" {
				write("host/node.id", tt.owner+"\n")
			}
			r, err := New(Config{
				Data: dir, Name: "n1", Supervisor: []string{"http://127.0.0.1:1"}, Log: slog.New(slog.DiscardHandler),
				Metrics: daemontest.Elsewhere{Listener: daemontest.Listening(t)}, Version: "test",
			})
			if err != nil {
				t.Fatal(err)
			}
			err = r.Run(t.Context())
			if writ.CodeOf(err) != tt.want || tt.want == writ.CodeDataIncomplete &&
				(!strings.Contains(err.Error(), dir) || !strings.Contains(writ.AsError(err).Hint, "swap them back")) {
				t.Errorf("the node starts with %v, hint %q; want %s", err, writ.AsError(err).Hint, tt.want)
			}
		})
	}
}
