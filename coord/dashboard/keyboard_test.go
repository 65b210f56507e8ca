package dashboard_test

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/google/go-cmp/cmp"

	"writ/coord/dashboard/snapshot"
	"writ/internal/test/testenv"
	"writ/ledger"
)

// keyboardFile is a script that inspects the focus.
const keyboardFile = "testdata/keyboard.js"

// typing opens a tab of a browser that is used by keys alone.
func typing(t *testing.T, width int64) context.Context {
	t.Helper()
	source, err := os.ReadFile(keyboardFile)
	if err != nil {
		t.Fatal(err)
	}
	tab := browse(t)
	do(t, tab, chromedp.EmulateViewport(width, 860), chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		_, err := cdp.Call(ctx, target, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: string(source)})
		return err
	}))
	return tab
}

// soon is until with a shorter timeout.
func soon(expression string) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		ctx, cancel := context.WithTimeout(ctx, hang)
		defer cancel()
		_, err := until(expression)(ctx, target)
		return err
	})
}

// press presses keys like a person: a key that the page handles is not typed as well. chromedp.KeyEvent types it in any
// case.
func press(keys string, options ...chromedp.KeyOption) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		for _, key := range keys {
			events := kb.Encode(key)
			down, up := events[0], events[len(events)-1]
			if len(events) == 3 {
				down.Text, down.UnmodifiedText = events[1].Text, events[1].UnmodifiedText
			}
			for _, event := range []*input.DispatchKeyEventParams{down, up} {
				for _, option := range options {
					option(event)
				}
				if _, err := cdp.Call(ctx, target, input.DispatchKeyEvent, *event); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

var backTab = press(kb.Tab, chromedp.KeyModifiers(chromedp.ModifierShift))

// tabTo presses Tab until an expression about the focused element e is true.
func tabTo(t *testing.T, tab context.Context, expression string) {
	t.Helper()
	for range 300 {
		do(t, tab, press(kb.Tab))
		if there, err := chromedp.Run(tab, chromedp.Evaluate[bool](`((e) => `+expression+`)(document.activeElement)`)); err != nil {
			t.Fatal(err)
		} else if there {
			return
		}
	}
	t.Fatalf("Tab does not get to where %s", expression)
}

// A person who uses only keys can reach, see and use everything on each page, in wide and in narrow windows. The gate
// checks one page.
//
// Promise: Operation: Each page of the dashboard works by keyboard alone, at 1280 and 390 pixels, with visible focus.
// How: WCAG 2.2, 2.1.1 to 2.1.4, 2.4.1, 2.4.3, 2.4.7 and 2.4.11; the test asks the browser for click listeners.
// Also: TestStuckRunIsFoundByKeyboard, TestKeysOfOneCharacterCanBeTurnedOff,
// TestTheManualListsTheKeysOfTheHelp, TestColoursHaveContrast.
func TestEveryPageIsUsedByKeysAlone(t *testing.T) {
	t.Parallel()
	w := open(t)
	w.ahead = time.Hour
	failed, running := everyPart(w)
	stuckAt := func(now time.Time) ledger.RunCounts {
		n, err := w.ledger.CountRuns(t.Context(), ledger.RunFilter{Silent: now.Add(-snapshot.StuckAfter)})
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	if diff := cmp.Diff(stuckAt(time.Now()), stuckAt(time.Now().Add(30*time.Minute))); diff != "" {
		t.Fatalf("runs become stuck during the test, and its pages change:\n%s", diff)
	}
	for _, width := range []int64{1280, 390} {
		t.Run(fmt.Sprint(width), func(t *testing.T) {
			for _, p := range everyPage(failed, running) {
				if strings.Contains(p.path, "#") || !testenv.IsNightly() && p.name != "stuck" {
					continue // Tab starts elsewhere on a page with a fragment
				}
				t.Run(p.name, func(t *testing.T) {
					tab := typing(t, width)
					w.show(t, tab, p)
					walk(t, tab)
					skip(t, tab)
					help(t, tab)
					rows(t, tab)
					fields(t, tab)
					w.show(t, tab, p)
					search(t, tab)
					w.show(t, tab, p)
					up(t, tab)
				})
			}
		})
	}
}

// The manual and the help of each page list the same keys.
func TestTheManualListsTheKeysOfTheHelp(t *testing.T) {
	t.Parallel()
	manual, err := os.ReadFile("../../docs/manual/dashboard.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(manual), "## By keyboard")
	section, _, _ = strings.Cut(section, "\n## ")
	listed := func(text, pattern string) (keys []string) {
		for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(text, -1) {
			keys = append(keys, m[1])
		}
		slices.Sort(keys)
		return keys
	}
	var rows strings.Builder
	for _, m := range regexp.MustCompile(`(?m)^\| (`+"`"+`[^|]*)\|`).FindAllStringSubmatch(section, -1) {
		rows.WriteString(m[1])
	}
	if help, manual := listed(open(t).page("/"), `<kbd>([^<]+)</kbd>`), listed(rows.String(), "`([^`]+)`"); len(help) == 0 || !slices.Equal(help, manual) {
		t.Errorf("the help has the keys %q, the manual %q", help, manual)
	}
}

// stop is the script's report about a place of the focus.
type stop struct {
	End     bool     `json:"end"`
	Wrong   []string `json:"wrong"`
	Scrolls string   `json:"scrolls"` // the element that an arrow key scrolls, or ""
}

// walk presses Tab until the focus leaves the page, and Shift+Tab until it leaves it at the top.
func walk(t *testing.T, tab context.Context) {
	t.Helper()
	do(t, tab, evaluate(`keyboard.begin()`))
	for _, way := range []struct {
		key  chromedp.Action[chromedp.Void]
		look string
	}{{press(kb.Tab), `keyboard.step()`}, {backTab, `keyboard.back()`}} {
		for end := false; !end; {
			do(t, tab, way.key)
			at, err := chromedp.Run(tab, chromedp.Evaluate[stop](way.look))
			if err != nil {
				t.Fatal(err)
			}
			for _, wrong := range at.Wrong {
				t.Error(wrong)
			}
			switch at.Scrolls {
			case "scrollLeft":
				do(t, tab, press(kb.ArrowRight), soon(`document.activeElement.scrollLeft > 0`))
			case "scrollTop":
				do(t, tab, press(kb.ArrowDown), soon(`document.activeElement.scrollTop > 0`))
			}
			end = at.End
		}
	}
}

// skip jumps over the header. The focus starts before the page.
func skip(t *testing.T, tab context.Context) {
	t.Helper()
	do(t, tab, press(kb.Tab), soon(`document.activeElement.matches(".skip") && document.activeElement.clientWidth > 50`), press(kb.Enter),
		soon(`document.activeElement.id === "main"`), press(kb.Tab), soon(`!!document.activeElement.closest("main, footer") && document.activeElement.id !== "main"`))
}

// help opens the list of keys, which keeps the focus until Escape returns it. Other keys have no effect there.
func help(t *testing.T, tab context.Context) {
	t.Helper()
	do(t, tab, press(kb.Escape), evaluate(`window.before = document.activeElement`), press("?"), soon(`document.getElementById("help").open`))
	for range 4 { // the list has two stops, and the browser follows the last one
		do(t, tab, soon(`document.activeElement === document.body || !!document.activeElement.closest("#help")`), press("ju/"), press(kb.Tab))
	}
	do(t, tab, press(kb.Escape), soon(`!document.getElementById("help").open && document.activeElement === window.before`))
}

// rows visits all rows of the lists, and returns.
func rows(t *testing.T, tab context.Context) {
	t.Helper()
	n, err := chromedp.Run(tab, chromedp.Evaluate[int](`(window.rows = [...document.querySelectorAll("main .list tbody tr")]).length`))
	if err != nil {
		t.Fatal(err)
	}
	const there = `((row, e) => row.contains(e) && (!row.querySelector("[data-open]") || e.matches("[data-open]")) && keyboard.unseen(e) === "")(window.rows[%d], document.activeElement)`
	do(t, tab, evaluate(`document.activeElement.blur()`))
	for i := range n {
		do(t, tab, press("j"), soon(fmt.Sprintf(there, i)))
	}
	for i := n - 2; i >= 0; i-- {
		do(t, tab, press("k"), soon(fmt.Sprintf(there, i)))
	}
}

// fields types keys with a function elsewhere into each field of the page.
func fields(t *testing.T, tab context.Context) {
	t.Helper()
	n, err := chromedp.Run(tab, chromedp.Evaluate[int](`(window.fields = [...document.querySelectorAll("main :is(input:not([type=hidden]), select)")]).length`))
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		do(t, tab, evaluate(fmt.Sprintf(`window.field = window.fields[%d]; window.had = field.value; window.place = location.href; field.focus()`, i)), press("jku/?"),
			soon(`document.activeElement === field && location.href === place && !document.getElementById("help").open && field.value === (field.matches("select") ? had : had + "jku/?")`),
			press(kb.Escape), soon(`document.activeElement === document.body && field.isConnected && field.value === had`))
	}
}

// search goes to the filters of the list of a page, or to the search of runs.
func search(t *testing.T, tab context.Context) {
	t.Helper()
	leads(t, tab, "/", `document.querySelector(".filter select") ? location.pathname : "/"`)
	do(t, tab, soon(`document.activeElement.matches(".filter :is(select, input)")`))
}

// up goes to the parent page, if the page has one.
func up(t *testing.T, tab context.Context) {
	t.Helper()
	leads(t, tab, "u", `document.querySelector("[data-up]")?.getAttribute("href") || location.pathname`)
}

// leads presses a key that leads to the path of an expression.
func leads(t *testing.T, tab context.Context, key, path string) {
	t.Helper()
	to, err := chromedp.Run(tab, chromedp.Evaluate[string](path))
	if err != nil {
		t.Fatal(err)
	}
	do(t, tab, press(key), soon(`location.pathname === "`+to+`"`))
}
