package dashboard_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"testing"

	"github.com/chromedp/chromedp"

	"writ/internal/test/testenv"
)

// axe is an accessibility checker. It is used in tests only.
const (
	axeFile   = "testdata/axe/axe-4.14.1.min.js"
	axeSHA256 = "29348999450cdf2849a8e70b7912fc2da85a849da39c0d0d5394f51d4a9ed95c"
)

// axeSource returns the script of axe after a check of its hash.
func axeSource(t *testing.T) string {
	t.Helper()
	source, err := os.ReadFile(axeFile)
	if err != nil {
		t.Fatal(err)
	}
	if sum := sha256.Sum256(source); hex.EncodeToString(sum[:]) != axeSHA256 {
		t.Fatalf("%s was changed", axeFile)
	}
	return string(source)
}

// violations runs all rules of axe on the current page and lists the violations.
const violations = `axe.run(document, {resultTypes: ["violations"]}).then((found) =>
	found.violations.map((v) => v.id + ": " + v.help + "\n" + v.nodes.map((n) => "\t" + n.target.join(" ") + ": " + n.failureSummary.replaceAll("\n", " ")).join("\n")).join("\n"))`

// No page violates a rule of axe, in light and dark mode, on a desktop and on a phone. The gate checks one page.
//
// Promise: Operation: No page of the dashboard breaks a rule of axe, in light and dark, at 1280 and 390 pixels.
// How: axe-core 4.14.1 in Chromium.
func TestAxeFindsNoViolation(t *testing.T) {
	t.Parallel()
	w := open(t)
	source := axeSource(t)
	failed, running := everyPart(w)
	for _, scheme := range []string{"light", "dark"} {
		for _, width := range []int64{1280, 390} {
			if !testenv.IsNightly() && scheme == "dark" {
				continue
			}
			t.Run(fmt.Sprint(scheme, width), func(t *testing.T) {
				tab := browse(t)
				do(t, tab, chromedp.EmulateViewport(width, 860), colours(scheme))
				for _, p := range everyPage(failed, running) {
					if testenv.IsNightly() || p.name == "stuck" {
						w.runAxe(t, tab, source, p)
					}
				}
			})
		}
	}
}

func (w *fixture) runAxe(t *testing.T, tab context.Context, source string, p shownPage) {
	t.Helper()
	w.show(t, tab, p)
	check := func(what string) {
		found, err := chromedp.Run(tab, chromedp.Evaluate[string](fmt.Sprintf("%s;\n%s", source, violations), chromedp.EvalAwaitPromise))
		if found != "" || err != nil {
			t.Errorf("%s: %v\n%s", what, err, found)
		}
	}
	check(p.name)
	if p.name == "stuck" { // the help is the same on all pages
		do(t, tab, press("?"), soon(`document.getElementById("help").open`))
		check("help")
	}
}
