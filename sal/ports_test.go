package sal

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"writ"
	"writ/internal/opening"
	"writ/sal/catalog"
)

func TestPortsAreChosen(t *testing.T) {
	open, err := opening.ParseList([]string{"192.0.2.10:80,8000-8002", "127.0.0.1:80"})
	if err != nil {
		t.Fatal(err)
	}
	claims := Claims{Open: open, Taken: func(c Claim) string {
		if c.Protocol == "tcp" && c.Port == 8001 && c.Share != "shop" {
			return "container shop publishes it"
		}
		return ""
	}}
	at := func(port, to int64) catalog.Publish { return catalog.Publish{Port: port, To: to, Protocol: "tcp"} }
	shared := func(port int64) catalog.Publish {
		return catalog.Publish{Port: port, To: 80, Protocol: "tcp", Share: "shop"}
	}
	datagrams := catalog.Publish{Port: 8001, To: 53, Protocol: "udp"}
	had := []Claim{{Protocol: "tcp", Port: 8002, To: 80, Chosen: true}}
	for _, tt := range []struct {
		name   string
		wanted []catalog.Publish
		had    []Claim
		want   string
		code   writ.Code
	}{
		{"nothing", nil, had, "[]", ""},
		{"an open port", []catalog.Publish{at(8000, 80)}, nil, "[{tcp 8000 80 false }]", ""},
		{"a closed port", []catalog.Publish{at(79, 80)}, nil, "the node opens 192.0.2.10:80,8000-8002 and 127.0.0.1:80", writ.CodePortClosed},
		{"a taken port", []catalog.Publish{at(8001, 80)}, nil, "container shop publishes it", writ.CodePortTaken},
		{"a shared port", []catalog.Publish{shared(8001)}, nil, "[{tcp 8001 80 false shop}]", ""},
		{"any port, shared", []catalog.Publish{shared(0)}, nil, "share a port by its number", writ.CodeArgumentsInvalid},
		{"a port twice, once shared", []catalog.Publish{at(8000, 80), shared(8000)}, nil, "twice", writ.CodeArgumentsInvalid},
		{"the port of the other protocol", []catalog.Publish{datagrams}, nil, "[{udp 8001 53 false }]", ""},
		{"a port twice", []catalog.Publish{at(80, 80), at(80, 81)}, nil, "twice", writ.CodeArgumentsInvalid},
		{"any ports", []catalog.Publish{at(0, 80), at(0, 81)}, nil, "[{tcp 80 80 true } {tcp 8000 81 true }]", ""},
		{"any port beside a certain one", []catalog.Publish{at(0, 81), at(80, 80)}, nil, "[{tcp 80 80 false } {tcp 8000 81 true }]", ""},
		{"the same port as before", []catalog.Publish{at(0, 80)}, had, "[{tcp 8002 80 true }]", ""},
		{"another port for another target", []catalog.Publish{at(0, 81)}, had, "[{tcp 80 81 true }]", ""},
		{"more than all ports", []catalog.Publish{at(0, 1), at(0, 2), at(0, 3), at(0, 4)}, nil, "all open tcp ports", writ.CodePortTaken},
	} {
		chosen, err := claims.Choose(tt.wanted, tt.had)
		got := fmt.Sprint(chosen)
		if e, ok := errors.AsType[*writ.Error](err); ok {
			got = e.Message + "; " + e.Hint
		}
		if !strings.Contains(got, tt.want) || writ.CodeOf(err) != tt.code && err != nil || err == nil && tt.code != "" {
			t.Errorf("%s: %s, want %s %s", tt.name, got, tt.code, tt.want)
		}
	}
	if _, err := (Claims{Taken: claims.Taken}).Choose([]catalog.Publish{at(0, 80)}, nil); writ.CodeOf(err) != writ.CodePortClosed {
		t.Errorf("without an opening: %v", err)
	}
	if got := fmt.Sprint(claims.Published([]Claim{{Protocol: "tcp", Port: 80, To: 8080, Share: "shop"}})); got != "[{192.0.2.10 80 8080 tcp shop} {127.0.0.1 80 8080 tcp shop}]" {
		t.Errorf("published are %s", got)
	}
}
