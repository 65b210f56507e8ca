package unixsocket

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestLongPathIsReached(t *testing.T) {
	for name, length := range map[string]int{"short": 10, "long": 200} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), strings.Repeat("d", length))
			if err := os.Mkdir(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(dir, "api.sock")
			if _, err := Dial(t.Context(), path); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("dial before listen: %v", err)
			}
			l, err := Listen(path)
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			client, err := Dial(t.Context(), path)
			if err != nil {
				t.Fatal(err)
			}
			defer client.Close()
			server, err := l.Accept()
			if err != nil {
				t.Fatal(err)
			}
			defer server.Close()
			if _, err := client.Write([]byte("x")); err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadFull(server, make([]byte, 1)); err != nil {
				t.Error(err)
			}
		})
	}
}
