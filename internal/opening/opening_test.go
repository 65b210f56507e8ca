package opening

import (
	"fmt"
	"strings"
	"testing"
)

func TestOpeningIsParsed(t *testing.T) {
	for text, want := range map[string]string{
		"192.0.2.10:80,443,8000-8999": "192.0.2.10:80,443,8000-8999",
		"[2001:db8::10]:443":          "[2001:db8::10]:443",
		"127.0.0.1:20000-20000":       "127.0.0.1:20000",
		"":                            "no ports", "192.0.2.10": "no ports", "[2001:db8::10]": "no ports",
		"192.0.2.10:":      `"" is neither`,
		"192.0.2.10:0":     `"0" is neither`,
		"192.0.2.10:65536": `"65536" is neither`,
		"192.0.2.10:9-8":   `"9-8" is neither`,
		"192.0.2.10:80,":   `"" is neither`,
		"2001:db8::10:80":  "brackets", "[192.0.2.10]:80": "brackets", "[2001:db8::10:80": "brackets",
		":80":               "does not begin with an IP address",
		"example.org:80":    "does not begin with an IP address",
		"0.0.0.0:80":        "one address",
		"[::]:80":           "one address",
		"[::1]:80":          "use 127.0.0.1",
		"224.0.0.1:80":      "multicast",
		"[fe80::1%eth0]:80": "link-local",
	} {
		o, err := Parse(text)
		got := o.String()
		if err != nil {
			got = err.Error()
		}
		if !strings.Contains(got, want) {
			t.Errorf("%q: %s, want %q", text, got, want)
		}
	}
}

func TestPortIsOpenAtItsAddresses(t *testing.T) {
	l, err := ParseList([]string{"192.0.2.10:80,8000-8002", "[2001:db8::10]:80", "192.0.2.10:80"})
	if err != nil {
		t.Fatal(err)
	}
	for port, want := range map[int64]string{
		80: "[192.0.2.10 2001:db8::10]", 8002: "[192.0.2.10]", 79: "[]", 8003: "[]", 0: "[]",
	} {
		if got := fmt.Sprint(l.At(port)); got != want {
			t.Errorf("port %d is open at %s, want %s", port, got, want)
		}
	}
	port, ok := l.Find(func(port int64) bool { return port > 80 && port != 8000 })
	if !ok || port != 8001 {
		t.Errorf("found %d, %v", port, ok)
	}
	if port, ok := l.Find(func(int64) bool { return false }); ok {
		t.Errorf("found %d", port)
	}
}
