package markup_test

import (
	"testing"

	. "writ/coord/dashboard/markup"
)

func TestNodesAreWrittenAsHTML(t *testing.T) {
	t.Parallel()
	type word string
	shout := func(w word) Node { return Em(Text(w)) }
	for want, n := range map[string]Node{
		``:                             nil,
		`<p></p>`:                      P(),
		`<p class="a">b<b>c</b></p>`:   P(Text("b"), Class("a"), B(Text("c"))),
		`<p id="a" class="b">c</p>`:    P(Group{ID("a"), Group{Text("c"), nil}}, Class("b")),
		`<br>`:                         Br(),
		`<input type="hidden" hidden>`: Input(Type("hidden"), Hidden()),
		`<svg viewBox="0 0 1 1"><path d="M0"/>` + `<rect class="b" x="1" width="2" y="3" height="4"/></svg>`: SVG("", "0 0 1 1", Path("", "M0"), Rect("b", "1", "3", "2", "4")),
		`<!doctype html><html lang="en"></html>`: Document(Lang("en")),
		`<em>a</em><em>b</em>`:                   Each([]word{"a", "b"}, shout),
		`<em>a</em>`:                             Group{With(word("a"), shout), With(word(""), shout), If(false, Br()), When(false, func() Node { panic("it is not made") })},
		`<a data-open hx-get="/" aria-label="l" data-key="k"></a>`: A(Mark("open"), HX("get", "/"), Aria("label", "l"), Data("key", "k")),
		`<p><b>&lt;</b></p>`: P(Render(B(Text("<")))), // rendered HTML is not escaped again
	} {
		if got := Render(n).String(); got != want {
			t.Errorf("%s is wanted, and written is %s", want, got)
		}
	}
}

func TestNoTextBecomesMarkup(t *testing.T) {
	t.Parallel()
	const hostile = "\"'><script>alert(1)</script>&amp;\x00"
	const escaped = `&#34;&#39;&gt;&lt;script&gt;alert(1)&lt;/script&gt;&amp;amp;\u0000`
	for want, n := range map[string]Node{
		`<p>` + escaped + `</p>`:              P(Text(hostile)),
		`<p class="` + escaped + `"></p>`:     P(Class(hostile)),
		`<p data-key="` + escaped + `"></p>`:  P(Data("key", hostile)),
		`<title>` + escaped + `</title>`:      DocumentTitle(hostile),
		`<path d="` + escaped + `"/>`:         Path("", hostile),
		`<a href="/` + "&#34;&lt;" + `"></a>`: A(Href(`/"<`)),
	} {
		if got := Render(n).String(); got != want {
			t.Errorf("%q is wanted, and written is %q", want, got)
		}
	}
}

func TestAddressesLeadToNoOtherSite(t *testing.T) {
	t.Parallel()
	for _, address := range []string{"/", "/runs/a?b=c#d", "#", "#call-1", "/a//b", "/a:b"} {
		if want, got := `<a href="`+address+`"></a>`, Render(A(Href(address))).String(); got != want {
			t.Errorf("%q becomes %s", address, got)
		}
	}
	for _, address := range []string{"", "javascript:alert(1)", " javascript:alert(1)", "JavaScript:x", "data:text/html,x", "https://evil.example", "//evil.example", `/\evil.example`, `\\evil.example`, "/\t/evil.example", "/\n/evil.example", "evil", "?a=b"} {
		for want, n := range map[string]Node{
			`<a href="#"></a>`:                A(Href(address)),
			`<form action="#"></form>`:        Form(Action(address)),
			`<script defer src="#"></script>`: Script(address),
		} {
			if got := Render(n).String(); got != want {
				t.Errorf("%q becomes %s", address, got)
			}
		}
	}
}
