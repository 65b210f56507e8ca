package boot

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"writ"
	"writ/efi/boot/clock"
)

func TestCommandLineIsRead(t *testing.T) {
	c := Config{}
	for _, text := range []string{
		"writ.supervisor=https://10.0.0.1:7441\nwrit.redis=rediss://10.0.0.1:6379/0\nwrit.name=of-the-image\n",
		"BOOT_IMAGE=/writ console=ttyS0 quiet  writ.name=n1 writ.supervisor=https://a:7441,https://b:7441 writ.join=writ2.abc init=/x writ.drivers=host writ.boot=http://10.0.0.1:8080/boot/report/52-54-00-77-00-50",
		"writ.interface=52:54:00:AB:00:01 writ.vlan=7 writ.address=10.0.0.5/24,2001:db8::5/64 writ.gateway=10.0.0.1,fe80::1 writ.nameserver=10.0.0.2,2001:db8::53",
		"writ.disk=S-1 writ.image-allow=10.0.0.0/24",
	} {
		if err := c.Read(text); err != nil {
			t.Error(err)
		}
	}
	got := []string{c.Name, strings.Join(c.Supervisors, " "), c.Redis, c.Join, c.Drivers, c.Boot, c.Interface, fmt.Sprint(c.VLAN, c.Addresses, c.Gateways, c.Nameservers), c.Disk, c.ImageAllow, c.label()}
	want := []string{"n1", "https://a:7441 https://b:7441", "rediss://10.0.0.1:6379/0", "writ2.abc", "host", "http://10.0.0.1:8080/boot/report/52-54-00-77-00-50", "52:54:00:ab:00:01", "7 [10.0.0.5/24 2001:db8::5/64] [10.0.0.1 fe80::1] [10.0.0.2 2001:db8::53]", "S-1", "10.0.0.0/24", usualLabel}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if err := c.Missing(false); err != nil {
		t.Error(err)
	}
	if c.Data = "of-n1"; c.label() != "of-n1" || (&Config{}).label() != "" {
		t.Errorf("the labels are %q and %q", c.label(), (&Config{}).label())
	}
}

func TestInvalidSettingKeepsTheOthers(t *testing.T) {
	for word, says := range map[string]string{
		"writ.nmae=n1":              "unknown setting writ.nmae",
		"writ.name":                 "has no value",
		"writ.name=":                "has no value",
		"writ.name=Not_A_Name":      "lower-case letters",
		"writ.address=10.0.0.5":     "writ.address=10.0.0.5",
		"writ.address=::/64":        "not a host address",
		"writ.address=ff02::1/64":   "not a host address",
		"writ.gateway=home":         "writ.gateway=home",
		"writ.vlan=0":               "from 1 to 4094",
		"writ.vlan=4095":            "from 1 to 4094",
		"writ.vlan=office":          "from 1 to 4094",
		"writ.cluster=home":         "64 hex digits",
		"writ.boot=10.0.0.1:8080":   "must begin with http",
		"writ.boot=http://a:b@h/":   "contains a password",
		"writ.nameserver=1.1.1.1,,": "writ.nameserver",
	} {
		c := Config{}
		err := c.Read("writ.drivers=auto " + word + " writ.redis=rediss://h:6379/0")
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %q", word, err, says)
		}
		if c.Redis == "" || c.Drivers == "" {
			t.Errorf("%s: the other settings are not read: %+v", word, c)
		}
	}
}

func TestAMissingSettingIsNamedWithItsRemedy(t *testing.T) {
	c := Config{}
	for _, next := range []string{"writ.supervisor=https://h:7441", "writ.redis=rediss://h:6379/0", "writ.join=writ2.abc"} {
		if err := c.Missing(true); (err == nil) != strings.HasPrefix(next, "writ.join") {
			t.Errorf("a node that has joined lacks %v before it has %s", err, next)
		}
		name, _, _ := strings.Cut(next, "=")
		if err := c.Missing(false); err == nil || !strings.Contains(writ.AsError(err).Hint, name) {
			t.Errorf("without %s: %v", name, err)
		}
		if err := c.Read(next); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Missing(false); err != nil {
		t.Error(err)
	}
	c.Join = ""
	if err := c.Read("writ.cluster=" + strings.Repeat("0a", 32)); err != nil {
		t.Error(err)
	}
	if err := c.Missing(false); err != nil {
		t.Errorf("a machine that waits to be approved needs no token: %v", err)
	}
}

func TestNoTextHasTheToken(t *testing.T) {
	if got := Redacted("quiet writ.join=writ2.secret  writ.name=n1\n"); got != "quiet writ.join=(hidden) writ.name=n1" {
		t.Errorf("Redacted = %q", got)
	}
	if IsInit(1, []string{"/sbin/getty"}) || IsInit(2, []string{"/init"}) || IsInit(1, nil) || IsInit(1, []string{"init"}) || !IsInit(1, []string{"/init"}) {
		t.Error("another process than the first one of a machine takes itself for it")
	}
}

func TestUnsetClockIsRefused(t *testing.T) {
	for text, ok := range map[string]bool{"1970-01-01T00:00:10Z": false, "2025-12-31T23:59:59Z": false, "2026-11-26T05:00:00Z": true, "2126-01-02T00:00:00Z": false} {
		now, err := time.Parse(time.RFC3339, text)
		if err != nil {
			t.Fatal(err)
		}
		if err := clock.Check(now); (err == nil) != ok {
			t.Errorf("%s: %v", text, err)
		}
	}
}
