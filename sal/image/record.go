package image

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"writ"

	"writ/sal"
	"writ/sal/catalog"
)

type record = sal.Record[own]

// own is the driver's part of a record.
type own struct {
	Phase phase  `json:"phase"`
	Dir   string `json:"dir"`             // tree of the images
	Bytes int64  `json:"bytes,omitempty"` // size of the file, once it is complete
}

// phase marks an operation that a crash may have interrupted.
type phase string

const (
	fetching phase = "fetching" // unfinished files may exist; the next attempt resumes
	ready    phase = "ready"    // the file is complete
	leaving  phase = "leaving"  // like ready, but without new users while a deletion checks for users
	deleting phase = "deleting" // the file must be removed, unless another image needs it
)

// valuesOf returns the handle of an image.
func valuesOf(r *record) map[string]any {
	c := contentOf(r)
	return catalog.Values(catalog.Image{
		Identity: catalog.Identify(r.Resource, r.UID, false),
		Path:     pathOf(r),
		SHA256:   c.sha256,
		Format:   c.format,
		SizeMiB:  (r.Own.Bytes + 1<<20 - 1) >> 20,
	})
}

// drifted returns a drift if the file of a complete image is missing or has another size than recorded.
func drifted(r *record) ([]sal.Drift, error) {
	path := pathOf(r)
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return []sal.Drift{{What: "its file is gone: " + path}}, nil
	case err != nil:
		return nil, sal.HostError("inspect the file of "+r.Resource.String(), err)
	case info.Size() != r.Own.Bytes:
		return []sal.Drift{{What: "its file was changed: " + path}}, nil
	}
	return nil, nil
}

// content identifies the content of an image and the project that fetches it.
type content struct {
	project             writ.ProjectID
	url, sha256, format string
}

func contentOf(r *record) content {
	url, _ := r.Spec["url"].(string)
	sha256, _ := r.Spec["sha256"].(string)
	format, _ := r.Spec["format"].(string)
	return content{r.Resource.Project, url, sha256, format}
}

// file returns the name of a complete image in the tree.
func (c content) file() string { return c.sha256 + "." + c.format }

// pathOf returns the final path of an image.
func pathOf(r *record) string { return filepath.Join(r.Own.Dir, contentOf(r).file()) }

// stem returns the common prefix of the names of a project's unfinished files with this content.
func (c content) stem() string { return c.sha256 + "." + short(string(c.project)) }

// begun returns the names of the unfinished files: the fetched bytes, their source, and the converted form.
func (c content) begun() (part, tag, made string) {
	begin := c.stem() + "." + short(c.url) + "."
	return begin + "part", begin + "tag", begin + "raw.part"
}

// sameBegun reports whether two files are unfinished files of the same content from the same URL.
func sameBegun(a, b string) bool {
	cut := func(name string) string {
		return strings.Join(strings.SplitN(name, ".", 4)[:min(3, strings.Count(name, ".")+1)], ".")
	}
	return strings.Count(a, ".") >= 3 && cut(a) == cut(b)
}

// shortLen is the number of hex digits that represent a project or URL in a file name.
const shortLen = 24

func short(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])[:shortLen]
}

// stemOf returns the lock name of a file: the digest of a complete image, or the stem of an unfinished one.
func stemOf(name string) string {
	fields := strings.SplitN(name, ".", 3)
	if len(fields) == 3 && len(fields[1]) == shortLen {
		return fields[0] + "." + fields[1]
	}
	return fields[0]
}
