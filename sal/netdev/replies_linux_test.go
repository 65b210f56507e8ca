package netdev

import "testing"

// TestSecondNetworkAnswersOverIPv4 reaches each address of a guest with several networks: from outside, and from a
// neighbour on the network. A strict reverse path filter in the guest changes nothing.
func TestSecondNetworkAnswersOverIPv4(t *testing.T) {
	t.Parallel()
	h := newRoutedHost(t)
	run(t, h.router, "ip", "route", "add", "10.0.0.0/8", "via", "192.0.2.1")
	lan := &guest{fixture: h.fixture, netns: h.router}
	h.must("network.create", "inside", nil)
	for name, ipv4 := range map[string]string{"front": "10.77.0.0/29", "back": "10.78.0.0/29", "side": "10.79.0.0/29"} {
		h.must("network.create", name, map[string]any{"ipv4": ipv4})
		h.must("network.allow", name, map[string]any{"rules": []any{
			map[string]any{"protocol": "icmp", "from": []any{"192.0.2.0/24"}},
		}})
	}
	neighbours := map[string]*guest{}
	for _, name := range []string{"inside", "front", "back", "side"} {
		neighbours[name] = h.guest("of-"+name, name)
	}
	for _, order := range [][]string{{"front", "back", "side"}, {"inside", "side", "front"}, {"back", "inside"}, {"inside"}} {
		web := h.guest("web", order...)
		h.set(web.netns, "ipv4/conf/all/rp_filter", "1")
		for i, p := range web.ports {
			if !neighbours[order[i]].reaches(p.IPv6.Addr().String()) {
				t.Errorf("on %v, the IPv6 address on %s does not answer", order, order[i])
			}
			if !p.IPv4.IsValid() {
				continue
			}
			if !neighbours[order[i]].reaches(p.IPv4.Addr().String()) || !lan.reaches(p.IPv4.Addr().String()) {
				t.Errorf("on %v, the IPv4 address on %s does not answer", order, order[i])
			}
		}
	}
}
