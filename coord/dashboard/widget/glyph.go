package widget

import . "writ/coord/dashboard/markup"

// Picture is a drawing that is scaled to the width of its container.
func Picture(class, box string, children ...Node) Node {
	return SVG(class, box, Stretched(), Group(children))
}

// Glyph is the symbol of a state, so that states differ by more than their colour.
func Glyph(state string) Node {
	return SVG("glyph", "0 0 16 16", Aria("hidden", "true"), drawing(state))
}

func drawing(state string) Node {
	circle := Circle("8", "8", "5.8", "")
	switch state {
	case "succeeded", "ready", "healthy", "joined":
		return Path("", "M3 8.6l3.3 3.4L13 4.6")
	case "failed", "lost":
		return Path("", "M4 4l8 8M12 4l-8 8")
	case "running", "starting":
		return Path("spin", "M8 2.2A5.8 5.8 0 1 1 2.2 8")
	case "waiting", "pending":
		return Group{circle, Path("", "M8 4.8V8l2.3 1.6")}
	case "refused", "rejected", "away":
		return Group{circle, Path("", "M4 4l8 8")}
	case "cancelled":
		return Path("", "M4 4h8v8H4z")
	case "expired":
		return Path("", "M4.6 2.6h6.8L8 8zM8 8l3.4 5.4H4.6z")
	case "queued":
		return Path("", "M3 4.4h10M3 8h10M3 11.6h6")
	case "silent", "stuck":
		return Path("", "M3.5 8h.1M8 8h.1M12.5 8h.1")
	case "faulty":
		return Path("", "M8 3v6M8 12.6h.1")
	case "unknown":
		return Path("", "M5.6 6a2.4 2.4 0 1 1 3.5 2.2c-.8.4-1.1.8-1.1 1.6M8 12.6h.1")
	}
	return Circle("8", "8", "5.8", "2.4 2.2")
}
