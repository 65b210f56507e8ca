package supervisord

import (
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"writ"
	"writ/cmd/writ/internal/daemon/internal/test/recorded"
)

func TestLostRostersAreMissed(t *testing.T) {
	t.Parallel()
	used := map[string][]byte{supervisorJournal: recorded.File(t, "../testdata/recorded", "journal.db"), supervisorJournal + ".lock": []byte("made")}
	for name, tt := range map[string]struct {
		files map[string][]byte
		code  writ.Code
		hint  []string
	}{
		"New":           {nil, writ.CodeUsage, []string{"--join", "writ dc add"}},
		"Used":          {used, writ.CodeDataIncomplete, []string{"--cluster ", "writ context list -o wide"}},
		"JournalOnHost": {map[string][]byte{markFile: []byte("{}")}, writ.CodeDataIncomplete, []string{"--cluster ID", "writ context list -o wide"}},
	} {
		data := t.TempDir()
		if _, err := Key(data); err != nil {
			t.Fatal(err)
		}
		for file, text := range tt.files {
			if err := os.WriteFile(filepath.Join(data, file), text, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		c := Config{Data: data, Log: slog.New(slog.DiscardHandler)}
		if name == "JournalOnHost" {
			c.Journal = "postgres://nobody@127.0.0.1:1/journal?connect_timeout=1"
		}
		var err error
		if c.Listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
			t.Fatal(err)
		}
		s, err := New(c)
		if err != nil {
			t.Fatal(err)
		}
		e := writ.AsError(s.Run(t.Context()))
		if e.Code != tt.code {
			t.Errorf("%s: %v", name, e)
		}
		for _, want := range tt.hint {
			if !strings.Contains(e.Hint, want) {
				t.Errorf("%s: the hint lacks %q: %s", name, want, e.Hint)
			}
		}
		if name == "Used" {
			_, id, _ := strings.Cut(e.Hint, "--cluster ")
			id, _, _ = strings.Cut(id, " ")
			if _, err := writ.ParseDigest(id); err != nil || !strings.Contains(e.Message, filepath.Join(data, "rosters")) {
				t.Errorf("%s: it does not name the cluster: %v %s", name, e, e.Hint)
			}
		}
	}
}
