package simulated

import (
	"fmt"
	"strings"
	"testing"

	"writ"
	"writ/internal/opening"
	"writ/sal"
	"writ/sal/catalog"
)

func TestSimulatedPortIsShared(t *testing.T) {
	open4, err := opening.ParseList([]string{"192.0.2.10:8080"})
	if err != nil {
		t.Fatal(err)
	}
	d := open(t, Config{Module: "container", Dir: t.TempDir(), Open: open4})
	spec := func(share string) map[string]any {
		port := map[string]any{"port": int64(8080), "to": int64(80), "protocol": "tcp"}
		if share != "" {
			port["share"] = share
		}
		return values(containerSpec, "publish", []any{port})
	}
	for _, name := range []string{"web-1", "web-2", "web-1"} {
		got := fmt.Sprint(must(t, d, "container.create", name, spec("web")).Values["published"])
		if got != "[map[address:192.0.2.10 port:8080 protocol:tcp share:web to:80]]" {
			t.Errorf("%s publishes %s", name, got)
		}
	}
	for _, share := range []string{"", "shop"} {
		_, err := do(t, t.Context(), d, "container.create", "other", spec(share))
		if writ.CodeOf(err) != writ.CodePortTaken || !strings.Contains(err.Error(), `shares it under the name "web"`) {
			t.Errorf("shared as %q: %v", share, err)
		}
	}
	o, _ := catalog.Lookup("container.create")
	decoded, err := o.Decode(spec("web"))
	if err != nil {
		t.Fatal(err)
	}
	stranger := writ.ResourceID{Project: "stranger", Kind: o.Kind, Name: "web-3"}
	_, err = d.Do(t.Context(), sal.Request{
		Operation: o, Resource: stranger, UID: "u2", Args: decoded, Key: "k2", Progress: func(string) {},
	})
	if writ.CodeOf(err) != writ.CodePortTaken || !strings.Contains(err.Error(), "a resource of another project") {
		t.Errorf("another project: %v", err)
	}
}

func TestSimulatedPortIsClaimed(t *testing.T) {
	open4, err := opening.ParseList([]string{"192.0.2.10:8080-8081"})
	if err != nil {
		t.Fatal(err)
	}
	d := open(t, Config{Module: "container", Dir: t.TempDir(), Open: open4})
	spec := func(port int64) map[string]any {
		return values(containerSpec, "publish", []any{map[string]any{"port": port, "to": int64(80), "protocol": "tcp"}})
	}
	published := func(name string, port int64) string {
		t.Helper()
		return fmt.Sprint(must(t, d, "container.create", name, spec(port)).Values["published"])
	}
	if got := published("web", 8080); got != "[map[address:192.0.2.10 port:8080 protocol:tcp to:80]]" {
		t.Errorf("published are %s", got)
	}
	for port, code := range map[int64]writ.Code{8080: writ.CodePortTaken, 8082: writ.CodePortClosed} {
		_, err := do(t, t.Context(), d, "container.create", "other", spec(port))
		if writ.CodeOf(err) != code || code == writ.CodePortTaken && !strings.Contains(err.Error(), "container web publishes it") {
			t.Errorf("port %d: %v", port, err)
		}
	}
	for range 2 {
		if got := published("other", 0); !strings.Contains(got, "port:8081") {
			t.Errorf("port 0 is %s", got)
		}
	}
	if got := published("web", 8080); !strings.Contains(got, "port:8080") {
		t.Errorf("asked again, published are %s", got)
	}
	must(t, d, "container.create", "web", containerSpec)
	if got := published("third", 8080); !strings.Contains(got, "port:8080") {
		t.Errorf("a port that was given up is %s", got)
	}
	must(t, d, "container.delete", "other", nil)
	if got := published("fourth", 8081); !strings.Contains(got, "port:8081") {
		t.Errorf("the port of a deleted container is %s", got)
	}
}

func TestSimulatedNodeOffersItsDevices(t *testing.T) {
	for _, offers := range [][]string{nil, {"kvm"}} {
		d := open(t, Config{Module: "container", Dir: t.TempDir(), Devices: offers})
		if got := d.Describe().Devices; len(got) != len(offers) {
			t.Errorf("it reports %v, want %v", got, offers)
		}
		must(t, d, "container.create", "web", values(containerSpec, "devices", []any{"kvm"}))
		_, err := do(t, t.Context(), d, "container.create", "web", values(containerSpec, "devices", []any{"kvm", "tpm"}))
		if refused := writ.CodeOf(err) == writ.CodeDeviceForbidden; refused != (offers != nil) {
			t.Errorf("with %v: %v", offers, err)
		}
	}
}
