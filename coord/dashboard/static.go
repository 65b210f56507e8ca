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

// static holds what browsers load. What is in vendor is as its authors published it, with their licences.
//
//go:embed static
var static embed.FS

// file is a file that browsers load.
type file struct {
	body    []byte
	version string // changes with the body
}

// files are those of static by their names, as addresses have them.
var files = sync.OnceValue(readFiles)

// staticURL is the address of a file, with its version.
func staticURL(name string) string { return "/static/" + name + "?v=" + files()[name].version }

func readFiles() map[string]file {
	files := map[string]file{}
	_ = fs.WalkDir(static, "static", func(name string, entry fs.DirEntry, err error) error { // embedded, so all can be read
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

// serveFile serves a file. Under the version that pages name it never changes, so a browser asks once.
func (d *Dashboard) serveFile(w http.ResponseWriter, r *http.Request) {
	name := chi.URLParam(r, "*")
	f, ok := files()[name]
	if !ok {
		d.Refuse(w, r, writ.Errorf(writ.CodeNotFound, "there is no file %q", name)) // strangers may ask
		return
	}
	h := w.Header()
	h.Set("ETag", `"`+f.version+`"`)
	h.Set("Cache-Control", "no-cache")
	if r.URL.Query().Get("v") == f.version {
		h.Set("Cache-Control", "public, max-age=31536000, immutable")
	}
	kind, known := contentTypes[path.Ext(name)] // not those of the machine, which may have none
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
