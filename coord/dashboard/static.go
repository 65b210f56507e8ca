package dashboard

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io/fs"
	"net/http"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/go-chi/chi/v5"

	"writ"
)

// static holds the files for browsers. The files in vendor are unchanged and have their licences.
//
//go:embed static
var static embed.FS

// file is a file for browsers.
type file struct {
	body    []byte
	version string // derived from the body
}

// files maps names below static to files.
var files = sync.OnceValue(readFiles)

// staticURL returns the address of a file, with its version.
func staticURL(name string) string { return "/static/" + name + "?v=" + files()[name].version }

func readFiles() map[string]file {
	files := map[string]file{}
	// Embedded, so reads cannot fail.
	_ = fs.WalkDir(static, "static", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		body, err := static.ReadFile(name)
		sum := sha256.Sum256(body)
		files[strings.TrimPrefix(name, "static/")] = file{body, hex.EncodeToString(sum[:6])}
		return err
	})
	return files
}

// serveFile serves a file. An address with the current version never changes its content, so browsers cache it forever.
func (d *Dashboard) serveFile(w http.ResponseWriter, r *http.Request) {
	name := chi.URLParam(r, "*")
	f, ok := files()[name]
	if !ok {
		d.Refuse(w, r, writ.Errorf(writ.CodeNotFound, "unknown file %q", name)) // without a login
		return
	}
	h := w.Header()
	h.Set("ETag", `"`+f.version+`"`)
	h.Set("Cache-Control", "no-cache")
	if r.URL.Query().Get("v") == f.version {
		h.Set("Cache-Control", "public, max-age=31536000, immutable")
	}
	kind, known := contentTypes[path.Ext(name)] // not from the machine's MIME table, which may be empty
	if !known {
		kind = "text/plain; charset=utf-8"
	}
	h.Set("Content-Type", kind)
	http.ServeContent(w, r, name, time.Time{}, bytes.NewReader(f.body))
}

var contentTypes = map[string]string{
	".js":  "text/javascript; charset=utf-8",
	".css": "text/css; charset=utf-8",
	".svg": "image/svg+xml",
}
