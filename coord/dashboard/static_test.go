package dashboard_test

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

func TestVendoredFilesAreThoseThatWereChecked(t *testing.T) {
	t.Parallel()
	const dir = "static/vendor"
	sums, err := os.ReadFile(dir + "/SHA256SUMS")
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{"SHA256SUMS": true, "README.md": true}
	for lines := bufio.NewScanner(bytes.NewReader(sums)); lines.Scan(); {
		want, name, _ := strings.Cut(lines.Text(), "  ")
		body, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Error(err)
			continue
		}
		if sum := sha256.Sum256(body); hex.EncodeToString(sum[:]) != want {
			t.Errorf("%s was changed", name)
		}
		known[name] = true
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	notice, err := os.ReadFile("../../NOTICE")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if !known[e.Name()] {
			t.Errorf("%s has no line in SHA256SUMS", e.Name())
		}
		if path.Ext(e.Name()) == ".LICENSE" && !bytes.Contains(notice, []byte(e.Name())) {
			t.Errorf("NOTICE does not name %s", e.Name())
		}
	}
}

func TestPagesNameFilesUnderAVersionThatNeverChanges(t *testing.T) {
	t.Parallel()
	w := open(t)
	addresses := regexp.MustCompile(`(?:href|src)="(/static/[^"]+)"`).FindAllStringSubmatch(w.page("/"), -1)
	if len(addresses) != 7 {
		t.Errorf("the page loads %d files", len(addresses))
	}
	for _, a := range addresses {
		response, _ := w.get(a[1])
		if response.StatusCode != http.StatusOK || !strings.Contains(response.Header.Get("Cache-Control"), "immutable") {
			t.Errorf("%s: %s, %q", a[1], response.Status, response.Header.Get("Cache-Control"))
		}
		path, _, _ := strings.Cut(a[1], "?")
		if old, _ := w.get(path + "?v=old"); strings.Contains(old.Header.Get("Cache-Control"), "immutable") {
			t.Errorf("%s caches another version as immutable", path)
		}
	}
}

// TestColoursHaveContrast checks every pair of text and ground against WCAG 2.2 AA, 4.5 : 1, in both modes. The focus
// mark has 3 : 1 on every ground.
func TestColoursHaveContrast(t *testing.T) {
	t.Parallel()
	css, err := os.ReadFile("static/dashboard.css")
	if err != nil {
		t.Fatal(err)
	}
	colours := map[string][2]string{}
	for _, m := range regexp.MustCompile(`--([a-z-]+): light-dark\(#([0-9a-f]{6}), #([0-9a-f]{6})\)`).FindAllStringSubmatch(string(css), -1) {
		colours[m[1]] = [2]string{m[2], m[3]}
	}
	pairs := [][2]string{{"text", "failed-ground"}, {"soft", "sunk"}}
	for _, text := range []string{"text", "soft", "accent", "failed", "waiting"} {
		for _, ground := range []string{"ground", "panel", "sunk"} {
			pairs = append(pairs, [2]string{text, ground})
		}
	}
	for name := range colours {
		if ground := name + "-ground"; colours[ground] != [2]string{} {
			pairs = append(pairs, [2]string{name, ground}, [2]string{name, "panel"}) // as a label, and in the counts
		}
	}
	if len(pairs) < 15+2*7 {
		t.Errorf("only %d pairs are found", len(pairs))
	}
	var marked [][2]string // grounds with a focus mark
	for name := range colours {
		if strings.HasSuffix(name, "ground") || name == "panel" || name == "sunk" {
			marked = append(marked, [2]string{"accent", name})
		}
	}
	for _, of := range []struct {
		pairs [][2]string
		least float64
	}{{pairs, 4.5}, {marked, 3}} {
		for _, p := range of.pairs {
			for scheme, name := range []string{"light", "dark"} {
				if c := contrast(t, colours[p[0]][scheme], colours[p[1]][scheme]); c < of.least {
					t.Errorf("%s: %s on %s has %.2f : 1", name, p[0], p[1], c)
				}
			}
		}
	}
}

func contrast(t *testing.T, a, b string) float64 {
	la, lb := luminance(t, a), luminance(t, b)
	return (max(la, lb) + .05) / (min(la, lb) + .05)
}

// luminance is the relative luminance of WCAG 2.2.
func luminance(t *testing.T, colour string) float64 {
	v, err := strconv.ParseUint(colour, 16, 24)
	if err != nil {
		t.Fatal(fmt.Errorf("colour %q: %w", colour, err))
	}
	channel := func(n uint64) float64 {
		c := float64(n&255) / 255
		if c <= .04045 {
			return c / 12.92
		}
		return math.Pow((c+.055)/1.055, 2.4)
	}
	return .2126*channel(v>>16) + .7152*channel(v>>8) + .0722*channel(v)
}
