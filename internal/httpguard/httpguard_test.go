package httpguard_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"writ"
	"writ/internal/httpguard"
)

func TestStrangersPagesGetNothing(t *testing.T) {
	g := &httpguard.Guard{Names: []string{"https://writ.example.org", "other.example.org:8443", "bare"}, Hint: "add it"}
	const ok, host, origin = writ.Code(""), writ.CodeHostUnknown, writ.CodeOriginForeign
	for _, tt := range []struct {
		name, method, host string
		header             map[string]string
		want               writ.Code
	}{
		{"a program", "POST", "writ.example.org", nil, ok},
		{"another port", "GET", "WRIT.example.org:7440", nil, ok},
		{"a full name", "GET", "writ.example.org.", nil, ok},
		{"another name", "GET", "other.example.org", nil, ok},
		{"a bare name", "GET", "bare:7440", nil, ok},
		{"loopback", "GET", "localhost:7440", nil, ok},
		{"an address", "GET", "10.1.2.3:7440", nil, ok},
		{"an address of IPv6", "GET", "[fd00::1]:7440", nil, ok},
		{"a rebound name", "GET", "attacker.example", nil, host},
		{"a name that begins alike", "GET", "writ.example.org.attacker.example", nil, host},
		{"a name that ends alike", "GET", "evilwrit.example.org", nil, host},
		{"no name", "GET", "", nil, host},
		{"a number", "GET", "2130706433", nil, host},
		{"localhost of somebody", "GET", "localhost.attacker.example", nil, host},
		{"its own page", "POST", "writ.example.org", map[string]string{"Origin": "https://writ.example.org", "Sec-Fetch-Site": "same-origin"}, ok},
		{"its own page behind a proxy", "POST", "127.0.0.1:7440", map[string]string{"Origin": "https://writ.example.org"}, ok},
		{"a page of a stranger", "POST", "writ.example.org", map[string]string{"Origin": "https://attacker.example"}, origin},
		{"one that reads", "GET", "writ.example.org", map[string]string{"Origin": "https://attacker.example"}, origin},
		{"a page on another port", "POST", "localhost:7440", map[string]string{"Origin": "http://localhost:3000"}, origin},
		{"a page from nowhere", "POST", "localhost:7440", map[string]string{"Origin": "null"}, origin},
		{"its name without TLS", "POST", "127.0.0.1:7440", map[string]string{"Origin": "http://writ.example.org"}, origin},
		{"a picture", "GET", "localhost:7440", map[string]string{"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "image"}, origin},
		{"a frame", "GET", "localhost:7440", map[string]string{"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "iframe"}, origin},
		{"a sibling", "POST", "writ.example.org", map[string]string{"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "cors"}, origin},
		{"a link", "GET", "localhost:7440", map[string]string{"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}, ok},
		{"a form", "POST", "localhost:7440", map[string]string{"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}, origin},
		{"typed", "GET", "localhost:7440", map[string]string{"Sec-Fetch-Site": "none", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}, ok},
	} {
		r := httptest.NewRequest(tt.method, "/", http.NoBody)
		r.Host = tt.host
		for name, value := range tt.header {
			r.Header.Set(name, value)
		}
		if err := g.Check(r); writ.CodeOf(err) != tt.want {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
	}
	r := httptest.NewRequest("POST", "/", http.NoBody)
	r.Host, r.Header["Origin"] = "localhost", []string{"http://localhost", "https://attacker.example"}
	if writ.CodeOf(g.Check(r)) != origin {
		t.Error("two origins are one too many")
	}
}
