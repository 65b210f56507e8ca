package catalog

import (
	"testing"

	"writ"
)

func TestRulesThatNeverMatchAreRefused(t *testing.T) {
	lan := writ.ResourceID{Project: "p", Kind: writ.KindNetwork, Name: "lan"}
	for name, tt := range map[string]struct {
		from         []string
		only6, both4 bool // whether the rule is refused without and with an IPv4 range
	}{
		"from everywhere": {nil, false, false},
		"from IPv6":       {[]string{"400::/7"}, false, false},
		"from both":       {[]string{"10.0.0.0/8", "400::/7"}, false, false},
		"from IPv4":       {[]string{"10.0.0.0/8"}, true, false},
		"from all IPv4":   {[]string{"0.0.0.0/0"}, true, false},
	} {
		rules := []NetworkRule{{}, {From: tt.from}}
		for hasIPv4, refused := range map[bool]bool{false: tt.only6, true: tt.both4} {
			if err := CheckRules(lan, rules, hasIPv4); (err != nil) != refused {
				t.Errorf("%s, IPv4 %v: %v", name, hasIPv4, err)
			}
		}
	}
}
