package dashboard_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"writ"
	"writ/coord/api"
	"writ/internal/test/testenv"
	"writ/ledger"
)

// From the first page, keys alone lead to a stuck run, the reason why it waits, and a command that helps, which is
// copied. They lead back, filter a list and turn its page.
func TestStuckRunIsFoundByKeyboard(t *testing.T) {
	t.Parallel()
	w := open(t)
	everyPart(w)
	oldest := w.submit(400, "oldest.tengo", func(in *ledger.Incoming) { in.Received = time.Now().Add(-9 * time.Hour) })
	oldest.State = writ.RunAccepted
	w.run(oldest)
	w.silence()
	const command = "writ release --dc ams1 --project web-shop"
	w.because(oldest.ID, heldBy("alice", "ams1", "web-shop"))
	tab := typing(t, 1280)
	do(t, tab, chromedp.Navigate(w.url+"/"), until(live))

	tabTo(t, tab, `e.textContent === "Stuck"`)
	do(t, tab, press(kb.Enter), soon(`location.pathname === "/stuck"`), until(live),
		press("j"), soon(`document.activeElement.textContent === "oldest.tengo" && document.activeElement.closest("tr").innerText.includes("alice has held")`),
		press(kb.Enter), soon(`location.pathname === "/runs/`+string(oldest.ID)+`"`), until(live), soon(`document.querySelector("#head .waits").textContent.includes("alice has held")`))
	tabTo(t, tab, `e.dataset.copy === "`+command+`"`)
	do(t, tab, press(kb.Enter), soon(`document.activeElement.textContent === "copied" && document.querySelector("body > [role=status]").textContent === "copied"`))

	const chosen = `document.activeElement.id === "f-project" && !document.querySelector(".htmx-request, .htmx-swapping, .htmx-settling")`
	do(t, tab, press("u"), soon(`location.pathname === "/"`), until(live), press("/"), soon(`document.activeElement.id === "f-signer"`), backTab, backTab,
		soon(`document.activeElement.id === "f-project"`), press(kb.ArrowDown), soon(`location.search.startsWith("?project=") && `+chosen))
	do(t, tab, press(kb.ArrowUp), soon(`location.search === "" && `+chosen))
	tabTo(t, tab, `e.rel === "next"`)
	do(t, tab, press(kb.Enter), soon(`location.search.includes("cursor=")`))
}

// Updates keep the focus on its element: on the same link of a replaced row, and on the same command. If a command is
// removed, its part of the page gets the focus, and Enter has no effect there.
//
// Promise: Operation: Live updates of a dashboard page keep the focus on its link or command, or in its place when
// the row is removed.
// How: The equivalent element of the new row gets the focus, or else the row, on which Enter has no effect.
// Also: TestFocusSurvivesMovedAndRemovedRows.
func TestNewsLeaveTheFocusWhereItIs(t *testing.T) {
	t.Parallel()
	w := open(t)
	_, running := fill(w)
	tab := typing(t, 390) // on this width, buttons are as wide as rows
	const focused = `document.activeElement`

	// A row changes.
	do(t, tab, chromedp.Navigate(w.url+"/"), until(live), press("jj"+kb.Tab+kb.Tab), soon(focused+`.matches("tr[data-key=\"`+string(running.ID)+`\"] .si a")`),
		evaluate(`window.before = `+focused))
	running.State, running.Ended = writ.RunSucceeded, time.Now()
	w.run(running)
	do(t, tab, soon(`!before.isConnected && `+focused+`.matches("tr[data-key=\"`+string(running.ID)+`\"] .si a")`))

	// Rows are added above it.
	do(t, tab, evaluate(`window.before = `+focused))
	w.submit(200, "just-now.tengo", nil)
	w.wake()
	do(t, tab, soon(`document.querySelector("#runs [data-open]").textContent === "just-now.tengo" && `+focused+` === before`))

	// New rows wait for a click, and their button covers no row with the focus.
	do(t, tab, evaluate(before(`#runs tr:last-child [data-open]`)), soon(focused+` === before`))
	w.submit(201, "newest.tengo", nil)
	w.wake()
	do(t, tab, soon(`!document.getElementById("fresh").hidden && `+focused+` === before`))
	for range 20 {
		do(t, tab, press("k"), soon(`keyboard.unseen(`+focused+`) === ""`))
	}
	do(t, tab, evaluate(before(`#fresh`)), press(kb.Enter), soon(focused+`.matches("#runs tr:first-child [data-open]") && `+focused+`.textContent === "newest.tengo"`))

	// A command remains, and is then removed.
	other := runningRun(w, 210, time.Now())
	page := "/runs/" + string(other.ID)
	cancel := `writ run cancel ` + string(other.ID)
	do(t, tab, chromedp.Navigate(w.url+page), until(live), evaluate(before(`[data-copy="`+cancel+`"]`)))
	other.Revision++
	w.run(other)
	do(t, tab, soon(`!before.isConnected && `+focused+`.dataset.copy === "`+cancel+`"`))
	other.State, other.Ended = writ.RunSucceeded, time.Now()
	w.run(other)
	do(t, tab, soon(focused+`.matches("#head > [data-state=succeeded]")`), press(kb.Tab), soon(`!!`+focused+`.closest("#head > [data-state=succeeded] button")`))
}

// In a list, updates keep the focus on a row that moves. When the row disappears, the keys continue at its place.
func TestFocusSurvivesMovedAndRemovedRows(t *testing.T) {
	t.Parallel()
	testenv.Nightly(t, "TestNewsLeaveTheFocusWhereItIs of package coord/dashboard keeps the focus in rows that are replaced")
	w := open(t)
	fill(w)
	tab := typing(t, 1280)
	const focused = `document.activeElement`

	// A row moves up.
	do(t, tab, chromedp.Navigate(w.url+"/queues"), until(live), evaluate(before(`#queues [href$="/ams1-n3"]`)),
		evaluate(`window.above = document.querySelector("#queues [href$='/ams1-n1']")`))
	w.setQueues(api.DatacenterQueues{Datacenter: ams, Name: "ams1", Queues: []writ.QueueDepth{
		{Node: "ams1-n1", NodeName: "ams1-n1", Queued: 1}, {Node: "ams1-n3", NodeName: "ams1-n3", Queued: 500},
	}})
	do(t, tab, soon(`(`+focused+`.compareDocumentPosition(document.querySelector("#queues [href$='/ams1-n1']")) & Node.DOCUMENT_POSITION_FOLLOWING) && `+focused+`.matches("#queues [href$='/ams1-n3']")`))

	// A row disappears.
	var stuck []writ.Run
	for n := range 5 {
		run := w.submit(220+n, fmt.Sprintf("stuck-%d.tengo", n), func(in *ledger.Incoming) { in.Received = time.Now().Add(-time.Duration(9-n) * time.Hour) })
		run.State = writ.RunRunning
		w.run(run)
		stuck = append(stuck, run)
	}
	w.silence()
	do(t, tab, chromedp.Navigate(w.url+"/stuck"), until(live), press("jj"), soon(focused+`.textContent === "stuck-1.tengo"`))
	end := func(run writ.Run) {
		run.State, run.Ended = writ.RunSucceeded, time.Now()
		w.run(run)
		do(t, tab, soon(`![...document.querySelectorAll("#stuck [data-open]")].some((e) => e.textContent === "`+run.Script+`")`))
	}
	end(stuck[1])
	do(t, tab, press("j"), soon(focused+`.textContent === "stuck-2.tengo"`))
	end(stuck[2])
	do(t, tab, press(kb.Tab), soon(focused+`.textContent === "stuck-3.tengo"`))
}

// Single-character keys can be turned off, and the choice is remembered. Named keys, and the button of the help,
// remain.
func TestKeysOfOneCharacterCanBeTurnedOff(t *testing.T) {
	t.Parallel()
	w := open(t)
	fill(w)
	tab := typing(t, 1280)
	const focused, help = `document.activeElement`, `document.getElementById("help").open`
	do(t, tab, chromedp.Navigate(w.url+"/"), until(live), press("?"), soon(focused+`.id === "single-keys" && `+focused+`.checked`), press(" "+kb.Escape), soon(`!`+help),
		chromedp.Navigate(w.url+"/stuck"), until(live), press("j?u/"), soon(focused+` === document.body && !`+help+` && location.pathname === "/stuck"`))
	tabTo(t, tab, `e.id === "help-button"`)
	do(t, tab, press(kb.Enter), soon(focused+`.id === "single-keys" && !`+focused+`.checked`), press(" "+kb.Tab+kb.Enter), soon(`!`+help+` && `+focused+`.id === "help-button"`),
		press("?"), soon(help))
}

// before focuses an element and remembers it.
func before(selector string) string {
	return "window.before = document.querySelector('" + selector + "'); before.focus()"
}
