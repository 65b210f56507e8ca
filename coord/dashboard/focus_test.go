package dashboard_test

import (
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"writ"
	"writ/ledger"
)

// From the first page, keys alone lead to a stuck run, why it waits and a command that helps, which is copied. They lead back, filter a list and turn its page.
func TestAStuckRunAndItsCommandAreFoundByKeysAlone(t *testing.T) {
	t.Parallel()
	w := open(t)
	everyPart(w)
	oldest := w.submit(400, "oldest.tengo", func(in *ledger.Incoming) { in.Received = time.Now().Add(-9 * time.Hour) })
	oldest.State = writ.RunAccepted
	w.run(oldest)
	w.silence()
	const command = "writ release --dc ams1 --project web-shop"
	w.because(oldest.ID, "is on hold ("+command+"): alice has held the project web-shop")
	tab := typing(t, 1280)
	do(t, tab, chromedp.Navigate(w.url+"/"), until(live))

	tabTo(t, tab, `e.textContent === "Stuck"`)
	do(t, tab, press(kb.Enter), soon(`location.pathname === "/stuck"`), until(live),
		press("j"), soon(`document.activeElement.textContent === "oldest.tengo" && document.activeElement.closest("tr").innerText.includes("alice has held")`),
		press(kb.Enter), soon(`location.pathname === "/runs/`+string(oldest.ID)+`"`), until(live), soon(`document.querySelector("#head .waits").textContent.includes("alice has held")`))
	tabTo(t, tab, `e.dataset.copy === "`+command+`"`)
	do(t, tab, press(kb.Enter), soon(`document.activeElement.textContent === "copied"`))

	const chosen = `document.activeElement.id === "f-project" && !document.querySelector(".htmx-request, .htmx-swapping, .htmx-settling")`
	do(t, tab, press("u"), soon(`location.pathname === "/"`), until(live), press("/"), soon(`document.activeElement.id === "f-signer"`), backTab, backTab,
		soon(`document.activeElement.id === "f-project"`), press(kb.ArrowDown), soon(`location.search.startsWith("?project=") && `+chosen))
	do(t, tab, press(kb.ArrowUp), soon(`location.search === "" && `+chosen))
	tabTo(t, tab, `e.rel === "next"`)
	do(t, tab, press(kb.Enter), soon(`location.search.includes("cursor=")`))
}

// People can turn off keys of one character, and what they chose lasts. Keys with a name, and the button of the help, remain.
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
