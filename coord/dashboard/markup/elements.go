package markup

// Document is a complete HTML document.
func Document(children ...Node) Node {
	return Group{doctype, container("html", children)}
}

var doctype = HTML{"<!doctype html>"}

// Elements of HTML.

func A(children ...Node) Node       { return container("a", children) }
func Article(children ...Node) Node { return container("article", children) }
func B(children ...Node) Node       { return container("b", children) }
func Body(children ...Node) Node    { return container("body", children) }
func Button(children ...Node) Node  { return container("button", children) }
func Caption(children ...Node) Node { return container("caption", children) }
func Code(children ...Node) Node    { return container("code", children) }
func Dd(children ...Node) Node      { return container("dd", children) }
func Dialog(children ...Node) Node  { return container("dialog", children) }
func Div(children ...Node) Node     { return container("div", children) }
func Dl(children ...Node) Node      { return container("dl", children) }
func Dt(children ...Node) Node      { return container("dt", children) }
func Em(children ...Node) Node      { return container("em", children) }
func Footer(children ...Node) Node  { return container("footer", children) }
func Form(children ...Node) Node    { return container("form", children) }
func H1(children ...Node) Node      { return container("h1", children) }
func H2(children ...Node) Node      { return container("h2", children) }
func H3(children ...Node) Node      { return container("h3", children) }
func H4(children ...Node) Node      { return container("h4", children) }
func Head(children ...Node) Node    { return container("head", children) }
func Header(children ...Node) Node  { return container("header", children) }
func Kbd(children ...Node) Node     { return container("kbd", children) }
func Label(children ...Node) Node   { return container("label", children) }
func Li(children ...Node) Node      { return container("li", children) }
func Main(children ...Node) Node    { return container("main", children) }
func Nav(children ...Node) Node     { return container("nav", children) }
func Ol(children ...Node) Node      { return container("ol", children) }
func Option(children ...Node) Node  { return container("option", children) }
func P(children ...Node) Node       { return container("p", children) }
func Section(children ...Node) Node { return container("section", children) }
func Select(children ...Node) Node  { return container("select", children) }
func Span(children ...Node) Node    { return container("span", children) }
func TBody(children ...Node) Node   { return container("tbody", children) }
func Table(children ...Node) Node   { return container("table", children) }
func Td(children ...Node) Node      { return container("td", children) }
func Th(children ...Node) Node      { return container("th", children) }
func THead(children ...Node) Node   { return container("thead", children) }
func Time(children ...Node) Node    { return container("time", children) }
func Tr(children ...Node) Node      { return container("tr", children) }
func Ul(children ...Node) Node      { return container("ul", children) }

// Elements without content.

func Br(attributes ...Node) Node    { return leaf("br", ">", attributes) }
func Input(attributes ...Node) Node { return leaf("input", ">", attributes) }
func Link(attributes ...Node) Node  { return leaf("link", ">", attributes) }
func Meta(attributes ...Node) Node  { return leaf("meta", ">", attributes) }

// DocumentTitle is the title element. Title is the attribute.
func DocumentTitle(s string) Node { return container("title", Group{Text(s)}) }

// Script loads a script of the same site after the page is parsed. Inline scripts are not supported.
func Script(address string) Node {
	return container("script", Group{flag("defer"), valued("src", local(address))})
}

// SVG is a picture with a view box.
func SVG(class, box string, children ...Node) Node {
	return container("svg", append(Group{given("class", class), valued("viewBox", box)}, children...))
}

// Path, Circle and Rect are the shapes of pictures. A Rect without x or y starts at the edge.

func Path(class, d string) Node {
	return leaf("path", "/>", Group{given("class", class), given("d", d)})
}

func Circle(x, y, radius, dashes string) Node {
	return leaf("circle", "/>",
		Group{given("cx", x), given("cy", y), given("r", radius), given("stroke-dasharray", dashes)})
}

func Rect(class, x, y, width, height string) Node {
	return leaf("rect", "/>",
		Group{given("class", class), given("x", x), given("width", width), given("y", y), given("height", height)})
}

// The functions below are not inlined: pages call them a thousand times, and each inlined copy would include the code
// that builds an element.

//go:noinline
func container(name string, children Group) Node { return element{name: name, children: children} }

//go:noinline
func leaf(name, end string, attributes Group) Node {
	return element{name: name, end: end, children: attributes}
}
