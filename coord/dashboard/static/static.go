// Package static serves the files of the pages for browsers: scripts, styles and pictures. The files in vendor are
// unchanged and have their licences.
package static

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io/fs"
	"net/http"
	"path"
	"sync"
	"time"
)

//go:embed *.js *.css *.svg vendor
var embedded embed.FS

// file is a file with a version that is derived from its content.
type file struct {
	body    []byte
	version string
}

// files maps names to files.
var files = sync.OnceValue(readFiles)

// URL returns the address of a file, with its version.
func URL(name string) string { return "/static/" + name + "?v=" + files()[name].version }

func readFiles() map[string]file {
	files := map[string]file{}
	// Embedded, so reads cannot fail.
	_ = fs.WalkDir(embedded, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		body, err := embedded.ReadFile(name)
		sum := sha256.Sum256(body)
		files[name] = file{body, hex.EncodeToString(sum[:6])}
		return err
	})
	return files
}

// Serve serves a file, or returns false if the name is unknown. An address with the current version never changes its
// content, so browsers cache it forever.
func Serve(w http.ResponseWriter, r *http.Request, name string) bool {
	f, ok := files()[name]
	if !ok {
		return false
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
	return true
}

var contentTypes = map[string]string{
	".js":  "text/javascript; charset=utf-8",
	".css": "text/css; charset=utf-8",
	".svg": "image/svg+xml",
}
