package dashboard_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"writ"
	"writ/coord/dashboard/page"
	"writ/internal/test/testenv"
)

// patience limits the wait for a hanging browser. Each call of do has the whole time, because a page has hundreds of
// stops for Tab.
const patience = 3 * time.Minute

// lateKey is the key of a tab's timer in its context.
type lateKey struct{}

// browse opens a tab of a new headless browser. Console errors fail the test, because browsers report violations of the
// content policy there.
func browse(t *testing.T) context.Context {
	t.Helper()
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(testenv.Need(t, "chromium")),
		chromedp.UserDataDir(testenv.Home(t, "browser")),
		chromedp.Flag("no-sandbox", true), // root in a container has no sandbox
		chromedp.Flag("disable-gpu", true),
		chromedp.Flag("disable-quic", true),
		chromedp.Flag("disable-component-update", true),
		chromedp.WSURLReadTimeout(patience),
	)
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	late := time.AfterFunc(patience, cancel)
	t.Cleanup(func() { late.Stop() })
	ctx = context.WithValue(ctx, lateKey{}, late)
	ctx, cancelBrowser := chromedp.NewExecAllocator(ctx, options...)
	tab, cancelTab := chromedp.NewContext(ctx)
	t.Cleanup(func() {
		_ = chromedp.Cancel(tab) // waits for its end
		cancelTab()
		cancelBrowser()
	})
	var mu sync.Mutex
	var complaints []string
	complain := func(text string) {
		mu.Lock()
		defer mu.Unlock()
		complaints = append(complaints, text)
	}
	err := chromedp.Listen(tab, func(event any) {
		switch e := event.(type) {
		case *runtime.EventExceptionThrown:
			complain(e.ExceptionDetails.Text)
		case *log.EventEntryAdded:
			// A missing page is not a defect.
			if e.Entry.Level == log.EntryLevelError && e.Entry.Source != log.EntrySourceNetwork {
				complain(e.Entry.Text)
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		mu.Lock()
		defer mu.Unlock()
		if len(complaints) > 0 {
			t.Errorf("the browser complains: %s", strings.Join(complaints, "\n"))
		}
	})
	return tab
}

// do runs steps in a tab.
func do(t *testing.T, tab context.Context, steps ...chromedp.Action[chromedp.Void]) {
	t.Helper()
	tab.Value(lateKey{}).(*time.Timer).Reset(patience)
	if err := chromedp.Do(tab, steps...); err != nil {
		t.Fatal(err)
	}
}

// until waits until an expression is true on the current page. chromedp.Poll builds its predicate with new Function,
// which the content policy forbids.
func until(expression string) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for {
			yes, err := chromedp.Evaluate[bool](expression)(ctx, target) // fails between two pages
			if yes && err == nil {
				return nil
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
				return fmt.Errorf("wait for %s: %w, last with %w", expression, ctx.Err(), err)
			}
		}
	})
}

func evaluate(expression string) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		_, err := chromedp.Evaluate[chromedp.Void]("{"+expression+"; ({})}")(ctx, target)
		return err
	})
}

const live = `document.getElementById("live").dataset.state === "on"`

func TestBrowserSeesRunsComeAndGo(t *testing.T) {
	t.Parallel()
	w := open(t)
	tab := browse(t)
	_, running := fill(w)
	do(t, tab, chromedp.EmulateViewport(1280, 900), chromedp.Navigate(w.url+"/"), until(live), until(`!!document.querySelector("#chart canvas")`))

	fresh := w.submit(200, "just-now.tengo", nil)
	w.wake()
	do(t, tab, until(`document.querySelector("#runs tr [data-open]").textContent === "just-now.tengo"`))
	fresh.State = writ.RunRunning
	w.run(fresh)
	do(t, tab, until(`document.querySelector("#runs tr").dataset.state === "running"`))

	do(t, tab, chromedp.KeyEvent("j"), until(`document.activeElement.textContent === "just-now.tengo"`), chromedp.KeyEvent("j"),
		chromedp.KeyEvent("k"), chromedp.KeyEvent("\r"), until(`location.pathname === "/runs/`+string(fresh.ID)+`"`))
	fresh.State, fresh.Ended = writ.RunSucceeded, time.Now()
	do(t, tab, until(live))
	w.run(fresh)
	do(t, tab, until(`document.querySelector("#head > div").dataset.state === "succeeded"`))

	do(t, tab, chromedp.KeyEvent("u"), chromedp.WaitVisible("#runs"), until(live), chromedp.KeyEvent("/"), until(`document.activeElement.id === "f-signer"`),
		evaluate(`document.getElementById("f-signer").value = ""`), chromedp.SendKeys("#f-signer", "bob\r"), until(`location.search === "?signer=bob" && [...document.querySelectorAll("#runs .si")].every((e) => e.textContent === "bob")`))
	do(t, tab, until(live), evaluate(`document.getElementById("f-signer").value = ""`), chromedp.SendKeys("#f-signer", string(running.ID)+"\r"), until(`location.pathname.startsWith("/runs/")`))
	do(t, tab, until(live), chromedp.KeyEvent("?"), until(`document.getElementById("help").open`))
}

func TestBrowserKeepsAReaderWhereHeReads(t *testing.T) {
	t.Parallel()
	w := open(t)
	tab := browse(t)
	fill(w)
	do(t, tab, chromedp.EmulateViewport(1280, 500), chromedp.Navigate(w.url+"/"), until(live), evaluate(`scrollTo(0, 1200)`),
		evaluate(`window.first = document.querySelector("#runs tr").dataset.key`))
	w.submit(200, "just-now.tengo", nil)
	w.wake()
	do(t, tab, until(`document.getElementById("fresh").textContent === "1 new run ↑"`))
	do(t, tab, until(`document.querySelector("#runs tr").dataset.key === window.first`))
	do(t, tab, chromedp.Click("#fresh"), until(`document.querySelector("#runs tr [data-open]").textContent === "just-now.tengo" && document.getElementById("fresh").hidden`))
}

// The address from `writ login --web` leads to a form that the browser submits with this server's origin. The page
// names that command only if the address has no code.
func TestBrowserLogsInWithTheCodeOfItsAddress(t *testing.T) {
	t.Parallel()
	w := open(t)
	tab := browse(t)
	const shown = `document.querySelector("#main").innerText.includes("writ login --web")`
	do(t, tab, chromedp.Navigate(w.url+"/login"), until(shown), chromedp.Navigate("about:blank"))
	do(t, tab, chromedp.Navigate(w.url+"/login#the-code"), until("!"+shown), until(`document.activeElement.textContent === "Continue"`), chromedp.KeyEvent("\r"),
		until(`location.pathname === "/" || !document.getElementById("code")`))
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.code != "the-code" {
		t.Errorf("the browser handed in %q", w.code)
	}
}

// A page whose reader has logged out, even in another tab, hides its contents and explains how to log in.
func TestBrowserLeavesAnUnreadablePage(t *testing.T) {
	t.Parallel()
	w := open(t)
	tab := browse(t)
	fill(w)
	do(t, tab, chromedp.Navigate(w.url+"/"), until(live))
	w.mu.Lock()
	w.ended = true
	w.mu.Unlock()
	w.wake()
	do(t, tab, until(`document.querySelector("#main a").getAttribute("href") === "/login" && !document.getElementById("runs")`))
}

// complaints lists the obstacles on a page for people who use a screen reader or only the keyboard, "" if there are no
// obstacles.
const complaints = `(() => {
	const bad = [], ids = new Set(), all = (selector) => document.querySelectorAll(selector);
	for (const e of all("[id]")) { if (ids.has(e.id)) bad.push("two elements have the id " + e.id); ids.add(e.id); }
	for (const e of all("input:not([type=hidden]), select")) if (!e.labels.length) bad.push("no label: " + e.name);
	for (const e of all("a[href], button")) if (!e.textContent.trim() && !e.ariaLabel) bad.push("no name: " + e.outerHTML);
	for (const e of all("svg")) if (!e.closest("[aria-hidden=true]") && !e.ariaLabel) bad.push("a picture without a name: " + e.outerHTML);
	for (const e of all("section, nav, [role=region]")) if (!e.ariaLabel && !e.hasAttribute("aria-labelledby") && e.matches(".panel[data-live], nav, [role=region]")) bad.push("a region without a name: " + e.id);
	for (const e of all("thead th")) if (e.scope !== "col") bad.push("a head without a scope: " + e.textContent);
	for (const e of all("main *")) if (e.scrollWidth > e.clientWidth + 1 && getComputedStyle(e).overflowX === "auto" && e.tabIndex < 0) bad.push("keys cannot scroll " + e.className);
	if (all("h1").length !== 1 || !document.title || document.documentElement.lang !== "en") bad.push(all("h1").length + " h1, title " + document.title);
	return bad.join("\n");
})()`

// shownPage is a page to open in a browser.
type shownPage struct {
	name, path string
	ofOne      bool // by a reader of one project
	still      bool // it has no live updates
}

// everyPage lists all pages of a fixture with everyPart.
func everyPage(failed, running writ.Run) []shownPage {
	fail := "/runs/" + string(failed.ID)
	return []shownPage{
		{name: "overview", path: "/"}, {name: "overview-of-one", path: "/", ofOne: true}, {name: "datacenters-of-one", path: "/datacenters", ofOne: true},
		{name: "failed", path: fail}, {name: "running", path: "/runs/" + string(running.ID)}, {name: "script", path: fail + "#line-0-31"},
		{name: "values", path: fail + "/values", still: true}, {name: "log", path: fail + "/log", still: true}, {name: "timeline", path: fail + "/timeline", still: true},
		{name: "secrets", path: "/secrets?project=" + string(shop), still: true}, {name: "usage", path: "/usage?month=2026-03", still: true},
		{name: "usage-of-shop", path: "/usage?month=2026-03&project=" + string(shop), still: true}, {name: "stuck", path: "/stuck"},
		{name: "node", path: "/nodes/" + string(gent) + "/gent2-n2"}, {name: "node-log", path: "/nodes/" + string(gent) + "/gent2-n2/log", still: true}, {name: "resources", path: "/resources"}, {name: "deployments", path: "/deployments"},
		{name: "resource", path: "/resources/" + string(ams) + "/" + string(shop) + "/machine/web-0"}, {name: "deployment", path: "/deployments/" + string(ams) + "/" + string(shop) + "/web"},
		{name: "failures", path: "/failures"}, {name: "queues", path: "/queues"}, {name: "nodes", path: "/nodes"}, {name: "boot", path: "/boot"}, {name: "datacenters", path: "/datacenters"},
		{name: "login", path: "/login", still: true}, {name: "error", path: "/?state=busy", still: true},
	}
}

// show opens a page.
func (w *fixture) show(t *testing.T, tab context.Context, p shownPage) {
	t.Helper()
	w.readAs(page.Reader{Name: "alice", Until: time.Now().Add(12 * time.Hour), All: !p.ofOne, Projects: ofShop.Projects})
	do(t, tab, chromedp.Navigate(w.url+p.path), chromedp.WaitVisible("#main"))
	if !p.still {
		do(t, tab, until(live))
	}
}

// colours selects the light or dark mode.
func colours(scheme string) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		features := []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}
		_, err := cdp.Call(ctx, target, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: features})
		return err
	})
}

// TestPicturesOfAllPages takes screenshots for review. It fails if a page overflows a phone, or if an element has no
// name. The gate checks one page.
// With WRIT_PICTURES=DIR the screenshots are kept: `task pictures` uses them for the documents.
func TestPicturesOfAllPages(t *testing.T) {
	t.Parallel()
	w := open(t)
	tab := browse(t)
	failed, running := everyPart(w)
	dir := t.TempDir()
	if keep := os.Getenv("WRIT_PICTURES"); keep != "" {
		dir = keep
	}
	for _, screen := range []struct {
		name, scheme  string
		width, height int64
	}{
		{"desktop-light", "light", 1280, 860},
		{"desktop-dark", "dark", 1280, 860},
		{"phone-dark", "dark", 360, 780},
	} {
		do(t, tab, chromedp.EmulateViewport(screen.width, screen.height), colours(screen.scheme))
		for _, p := range everyPage(failed, running) {
			if !testenv.IsNightly() && p.name != "running" {
				continue
			}
			if p.ofOne && screen.name != "phone-dark" {
				continue // wider screens cannot overflow if this one does not
			}
			w.show(t, tab, p)
			wide, err := chromedp.Run(tab, chromedp.Evaluate[bool](`document.documentElement.scrollWidth > innerWidth`))
			if wide || err != nil {
				t.Errorf("%s is wider than %s: %v, %v", p.name, screen.name, wide, err)
			}
			if screen.name == "desktop-light" { // between the two sizes, pages have other layouts
				for _, width := range []int64{390, 830, 1081, 1241} {
					do(t, tab, chromedp.EmulateViewport(width, screen.height))
					if wide, err := chromedp.Run(tab, chromedp.Evaluate[bool](`document.documentElement.scrollWidth > innerWidth`)); wide || err != nil {
						t.Errorf("%s is wider than %d: %v", p.name, width, err)
					}
				}
				do(t, tab, chromedp.EmulateViewport(screen.width, screen.height))
			}
			if bad, err := chromedp.Run(tab, chromedp.Evaluate[string](complaints)); bad != "" || err != nil {
				t.Errorf("%s on %s: %s, %v", p.name, screen.name, bad, err)
			}
			picture, err := chromedp.Run(tab, chromedp.CaptureScreenshot())
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, screen.name+"-"+p.name+".png"), picture, 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
}
