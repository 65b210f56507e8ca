package netdev

import (
	"regexp"
	"strings"
	"testing"

	"writ"
	"writ/internal/test/testenv"
	"writ/sal/saltest"
)

// remedyOf matches the command in a drift.
var remedyOf = regexp.MustCompile("`(.+)`")

// Promise: Networks and containers: A network whose packets another firewall drops names the command that allows them.
// How: Every check reads the forward chains of all tables, and searches their rules for the bridge.
func TestForeignFirewallIsReported(t *testing.T) {
	t.Parallel()
	const hooked = "{ type filter hook forward priority filter; "
	for name, tt := range map[string]struct {
		rules  []string
		silent bool
		want   string // part of the command
	}{
		"ufw or an old Docker": {
			rules: []string{"add table ip filter", "add chain ip filter FORWARD " + hooked + "policy drop; }",
				"add rule ip filter FORWARD oifname docker0 ct state established,related accept"},
			want: "nft insert rule ip filter FORWARD iifname DEVICE accept",
		},
		"Docker": {
			rules: []string{"add table ip filter", "add chain ip filter FORWARD " + hooked + "policy drop; }",
				"add chain ip filter DOCKER-USER", "add rule ip filter FORWARD jump DOCKER-USER"},
			want: "nft insert rule ip filter DOCKER-USER iifname DEVICE accept",
		},
		"IPv6": {
			rules: []string{"add table ip6 filter", "add chain ip6 filter FORWARD " + hooked + "policy drop; }"},
			want:  "nft insert rule ip6 filter FORWARD iifname DEVICE accept",
		},
		"last rule rejects": {
			rules: []string{"add table inet own", "add chain inet own forward " + hooked + "policy accept; }",
				"add rule inet own forward iifname { lo, eth0 } accept", "add rule inet own forward counter reject with icmpx admin-prohibited"},
			want: "nft insert rule inet own forward iifname DEVICE accept",
		},
		"firewalld": {
			rules: []string{"add table inet firewalld", "add chain inet firewalld filter_FORWARD " + hooked + "policy accept; }",
				"add rule inet firewalld filter_FORWARD reject with icmpx admin-prohibited"},
			want: "firewall-cmd --permanent --zone=trusted --add-interface=DEVICE",
		},
		"policy accept": {
			rules: []string{"add table ip filter", "add chain ip filter FORWARD " + hooked + "policy accept; }",
				"add rule ip filter FORWARD iifname docker0 oifname eth0 drop"},
			silent: true,
		},
		"accepted by prefix": {
			rules: []string{"add table inet own", "add chain inet own forward " + hooked + "policy drop; }",
				`add rule inet own forward iifname "n*" accept`},
			silent: true,
		},
		"accepted by set": {
			rules: []string{"add table inet own", "add chain inet own forward " + hooked + "policy drop; }",
				"add rule inet own forward oifname { eth0, DEVICE } accept"},
			silent: true,
		},
		"libvirt": {
			rules: []string{"add table ip libvirt_network", "add chain ip libvirt_network forward " + hooked + "policy accept; }",
				"add chain ip libvirt_network guest_input", "add rule ip libvirt_network forward jump guest_input",
				"add rule ip libvirt_network guest_input oifname virbr0 counter reject"},
			silent: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testenv.Need(t, "nft")
			x := newFixture(t, subnetA)
			x.must("network.create", "back", map[string]any{"ipv4": "10.50.1.0/24"})
			network := saltest.Resource(writ.KindNetwork, "back")
			device := network.HostName()
			for _, rule := range tt.rules {
				run(t, x.Netns, "nft", strings.ReplaceAll(rule, "DEVICE", device))
			}
			drift, err := x.Keep(t.Context(), network)
			if err != nil || tt.silent != (len(drift) == 0) {
				t.Fatalf("%+v, %v", drift, err)
			}
			if tt.silent {
				return
			}
			command := remedyOf.FindStringSubmatch(drift[0].What)
			if len(drift) != 1 || drift[0].Mended || command == nil ||
				!strings.HasPrefix(command[1], strings.ReplaceAll(tt.want, "DEVICE", device)) {
				t.Fatalf("%+v, want the command %s", drift, tt.want)
			}
			if strings.HasPrefix(command[1], "firewall-cmd") {
				return
			}
			for typed := range strings.SplitSeq(command[1], " && ") {
				run(t, x.Netns, strings.Fields(typed)...)
			}
			if drift, err := x.Keep(t.Context(), network); err != nil || len(drift) > 0 {
				t.Errorf("after %s: %+v, %v", command[1], drift, err)
			}
		})
	}
}
