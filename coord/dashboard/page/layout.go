package page

import (
	"net/http"

	"writ"
	. "writ/coord/dashboard/markup"
	"writ/coord/dashboard/static"
	. "writ/coord/dashboard/widget"
	"writ/internal/hidden"
)

// htmxConfig disables the history cache of htmx, and the features that the content policy forbids.
const htmxConfig = `{"includeIndicatorStyles":false,"allowEval":false,"allowScriptTags":false,"selfRequestsOnly":true,"historyCacheSize":0,"refreshOnHistoryMiss":true}`

// HTML renders the whole page.
func (p *Page) HTML() Node {
	return Document(Lang("en"),
		Head(
			Meta(Charset("utf-8")),
			Meta(Name("viewport"), Content("width=device-width, initial-scale=1")),
			Meta(Name("color-scheme"), Content("light dark")),
			Meta(Name("htmx-config"), Content(htmxConfig)),
			DocumentTitle(p.Title+" · writ"),
			Link(Rel("icon"), Href(static.URL("icon.svg")), Type("image/svg+xml")),
			Link(Rel("stylesheet"), Href(static.URL("vendor/uplot-1.6.32.min.css"))),
			Link(Rel("stylesheet"), Href(static.URL("dashboard.css"))),
			Script(static.URL("vendor/htmx-2.0.11.min.js")),
			Script(static.URL("vendor/uplot-1.6.32.min.js")),
			Script(static.URL("chart.js")),
			Script(static.URL("dashboard.js")),
		),
		Body(
			A(Class("skip"), Href("#main"), Text("Skip to content")),
			p.header(),
			Main(ID("main"), TabIndex("-1"),
				With(p.notice, func(notice string) Node { return P(Class("notice"), Role("status"), Text(notice)) }),
				p.Body.HTML(p)),
			Footer(
				P(Text("Read only: changes are made by signed texts. "), A(Href("/openapi.yaml"), Text("API")),
					If(p.Everything(), Group{Text(" · "), A(Href("/metrics"), Text("metrics"))})),
				If(p.reader.Name != "" && !p.bare, p.logout())),
			keysDialog(),
			Span(ID("said"), Class("hidden"), Role("status")), // announces the effect of a button to screen readers
		),
	)
}

func (p *Page) header() Node {
	return Header(Class("bar"),
		A(Class("brand"), Href("/"), brand(), Text("writ")),
		Nav(Aria("label", "Pages"),
			entries("Work",
				p.entry("runs", "/", "Runs"),
				p.entry("stuck", "/stuck", "Stuck"),
				p.entry("failures", "/failures", "Failures")),
			entries("Services",
				p.entry("deployments", "/deployments", "Deployments"),
				p.entry("resources", "/resources", "Resources"),
				p.entry("secrets", "/secrets", "Secrets"),
				p.entry("usage", "/usage", "Usage")),
			entries("Cluster",
				If(p.Everything(), Group{
					p.entry("queues", "/queues", "Queues"), p.entry("nodes", "/nodes", "Nodes"), p.entry("boot", "/boot", "Boot"),
				}),
				p.entry("datacenters", "/datacenters", "Datacenters")),
		),
		Span(Class("live"), ID("live"), Role("status"), Data("state", "off"), Span(Class("dot")),
			Span(Class("word"), Text("as loaded"))),
		Button(Class("keys-button"), ID("help-button"), Type("button"), Aria("haspopup", "dialog"), Aria("label", "Keys"),
			Text("?")),
	)
}

// logout shows the logged-in person and a logout button.
func (p *Page) logout() Node {
	return Form(Class("logout"), Method("post"), Action("/logout"),
		Text("Logged in as "+hidden.Escape(p.reader.Name)+" until "),
		Time(DateTime(Millis(p.reader.Until)), Text(Stamp(p.reader.Until))),
		Text(" "), Button(Type("submit"), Text("Log out")))
}

// entry is an entry of the navigation.
func (p *Page) entry(name, address, title string) Node {
	return A(Href(address), If(p.Nav == name, Aria("current", "page")), Text(title))
}

// entries is a group of the navigation.
func entries(name string, children ...Node) Node {
	return Span(Class("entries"), Role("group"), Aria("label", name), Group(children))
}

func brand() Node {
	return SVG("", "0 0 24 24", Aria("hidden", "true"),
		Path("", "M6 3.5h9.5L19 7v13.5H6z"), Path("", "M9 9.5h6M9 13h6"), Circle("15", "17.5", "1.6", ""))
}

func keysDialog() Node {
	line := func(does string, keys ...string) Node {
		var shown Group
		for i, k := range keys {
			shown = append(shown, If(i > 0, Text(" ")), Kbd(Text(k)))
		}
		return Div(Dt(shown), Dd(Text(does)))
	}
	return Dialog(ID("help"), Aria("labelledby", "help-title"),
		H2(ID("help-title"), Text("Keys")),
		Dl(Class("keys"),
			line("search or filter the list; without a list, search all runs", "/"),
			line("next and previous row", "j", "k"),
			line("open the row", "Enter"),
			line("up, to the list, run or node of the page", "u"),
			line("leave a field, close this help", "Esc"),
			line("this help", "?"),
		),
		P(Text("Runs are found by signer, script, id, or a text in their names, parameters and errors.")),
		Form(Method("dialog"),
			Label(Input(Type("checkbox"), ID("single-keys")), Text(" keys of one character")),
			Button(Text("Close"))),
	)
}

// problem is the body of an error page.
type problem struct{ *writ.Error }

// problemPage returns the page of an error.
func problemPage(e *writ.Error, bare bool) *Page {
	return &Page{Title: http.StatusText(e.Code.Info().Status), bare: bare, Body: problem{e}}
}

func (e problem) HTML(*Page) Node {
	return Section(Class("panel problem"), Aria("labelledby", "problem"),
		P(Class("code"), Text(e.Code)),
		H1(ID("problem"), Text(e.Message)),
		With(e.Hint, func(hint string) Node { return P(Class("hint"), Text(hint)) }),
		P(e.onward()),
	)
}

// onward links to a page that the reader may open: to the login page after an error of the login, otherwise to the
// runs.
func (e problem) onward() Node {
	if e.Code == writ.CodeLoginRequired || e.Code == writ.CodeLoginRefused {
		return A(Href("/login"), Text("Log in"))
	}
	return A(Href("/"), Text("To the runs"))
}

// loginPage submits the code after the # of its address. Without a code, it explains how to get one. The HTML contains
// both, and a script shows the right one, because the server does not see the code.
type loginPage struct{}

func (loginPage) HTML(*Page) Node {
	return Section(Class("panel problem"), Aria("labelledby", "login"),
		H1(ID("login"), Text("Log in")),
		Div(ID("no-code"),
			P(Text("Type this on the machine with your SSH key. It opens this page with a code that can be used once.")),
			P(Copyable("writ login --web"))),
		Form(ID("code"), Method("post"), Action("/login"), Hidden(),
			Input(Type("hidden"), Name("code")),
			P(Text("You opened an address with a code. It logs this browser in, once.")),
			Button(Type("submit"), Text("Continue")),
		),
		Script(static.URL("login.js")),
	)
}
