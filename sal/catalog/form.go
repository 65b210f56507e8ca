package catalog

import (
	"net/netip"

	"writ/internal/lazyregexp"
)

// form is a string format shared by several fields.
type form struct {
	text    string // completes "must be …"
	sample  string // a useful text of this form, for examples
	pattern *lazyregexp.Regexp
	also    func(string) bool // checks the rest of the format that a pattern cannot express; may be nil
	// useless returns the reason if a text of this form cannot be useful, else "". It may be nil. Only Check and
	// CheckSent use it.
	useless func(string) string
}

func (f form) matches(s string) bool {
	return f.pattern.MatchString(s) && (f.also == nil || f.also(s))
}

// Sample returns a useful text for a field with a form. For other fields, it returns "".
func (f *Field) Sample() string {
	for _, form := range forms {
		if f.Form == form.text {
			return form.sample
		}
	}
	return ""
}

// forms maps the names in tags to forms.
var forms = map[string]form{
	"name": {
		text:    "a name of 1 to 63 lower-case letters, digits and hyphens",
		sample:  `before-upgrade`,
		pattern: lazyregexp.New(`^[a-z0-9][a-z0-9-]{0,62}$`), // as writ.ValidName
	},
	"sha256": {
		text:    "64 lower-case hex digits",
		sample:  `5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e`,
		pattern: lazyregexp.New(`^[0-9a-f]{64}$`),
		useless: uselessDigest,
	},
	"source": {
		text:    "the URL of one file such as https://example.org/disk.raw or file:///srv/disk.raw",
		sample:  `https://example.org/web.raw`,
		pattern: lazyregexp.New(`^(https://|file:///)[\x21-\x7e]+$`),
		useless: uselessURL,
	},
	"prefix": {
		text:    "a source address range like 10.1.0.0/24 or 400::/7, host bits zero",
		sample:  `400::/7`,
		pattern: lazyregexp.New(`^[0-9a-f.:]+/[0-9]{1,3}$`),
		also:    func(s string) bool { p, err := netip.ParsePrefix(s); return err == nil && p == p.Masked() },
		useless: uselessSource,
	},
	"prefix4": {
		text:    "a private IPv4 address range like 10.1.0.0/24, host bits zero, /8 to /30",
		sample:  `10.1.0.0/24`,
		pattern: lazyregexp.New(`^[0-9.]+/[0-9]{1,2}$`),
		also: func(s string) bool {
			p, err := netip.ParsePrefix(s)
			return err == nil && p == p.Masked() && p.Addr().Is4() && p.Bits() >= 8 && p.Bits() <= 30 && private(p)
		},
	},
	"path": {
		text:    "an absolute path such as /data, without . and ..",
		sample:  `/data`,
		pattern: lazyregexp.New(`^(/[^/\x00-\x1f]+)+$`),
		also:    func(s string) bool { return !dotted.MatchString(s) },
		useless: UselessMount,
	},
	"directory": {
		text:    "an absolute path such as /app, without . and ..",
		sample:  `/app`,
		pattern: lazyregexp.New(`^(/|(/[^/\x00-\x1f]+)+)$`),
		also:    func(s string) bool { return !dotted.MatchString(s) },
	},
	"mode": {
		text:    "permissions in octal such as 0640",
		sample:  `0640`,
		pattern: lazyregexp.New(`^0?[0-7]{3}$`),
	},
	"owner": {
		text:    "a user such as app, app:app or 1000:1000",
		sample:  `1000:1000`,
		pattern: lazyregexp.New(`^[A-Za-z0-9_][A-Za-z0-9_.-]*(:[A-Za-z0-9_][A-Za-z0-9_.-]*)?$`),
	},
	"device": {
		text:    "the name of a device such as kvm, without a path",
		sample:  `kvm`,
		pattern: lazyregexp.New(`^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$`),
	},
	"urlpath": {
		text:    "a path such as /healthz",
		sample:  `/healthz`,
		pattern: lazyregexp.New(`^/[\x21-\x7e]*$`),
		useless: uselessPath,
	},
	"sshkey": {
		text:    "a public key like \"ssh-ed25519 AAAA…\" on one line, without options such as from=",
		pattern: lazyregexp.New(`^(ssh-|ecdsa-|sk-)[a-z0-9@.-]+ [A-Za-z0-9+/=]+( [^\x00-\x1f]*)?$`),
		useless: uselessLoginKey,
	},
	"variable": {
		text:    "a variable's name like DB_HOST",
		sample:  `DB_HOST`,
		pattern: lazyregexp.New(`^[A-Za-z_][A-Za-z0-9_]*$`),
	},
	"account": {
		text:    "the name of an account on one line, without colons",
		sample:  `ci`,
		pattern: lazyregexp.New(`^[^:\x00-\x1f\x7f]+$`),
	},
	"cmdline": {
		text:    "one line such as console=ttyS0 root=/dev/vda1 rw, without control characters",
		sample:  `console=ttyS0`,
		pattern: lazyregexp.New(`^[^\x00-\x1f\x7f]*$`),
		useless: uselessCmdline,
	},
	"userdata": {
		text:    "user-data that cloud-init can read",
		sample:  `#cloud-config`,
		pattern: lazyregexp.New(`^[^\x00]*$`),
		useless: uselessUserData,
	},
	"program": {
		text:    "a program such as /usr/bin/env",
		sample:  `date`,
		pattern: lazyregexp.New(`^[^\x00]*$`),
		useless: uselessProgram,
	},
	"value": {
		text:    "one line of text without #",
		sample:  `on`,
		pattern: lazyregexp.New(`^[^\x00]*$`),
		useless: UselessVariable,
	},
	"position": {
		text:    "a position in a log from a result",
		pattern: lazyregexp.New(`^([0-9a-f]{12}-[0-9]{1,18})?$`),
	},
	"version": {
		text:    "a version like 7.2 or 0.3.1",
		sample:  `7.2`,
		pattern: lazyregexp.New(`^[0-9]+(\.[0-9]+){0,2}$`),
	},
}

// private reports whether a range is private (RFC 1918) or shared between providers and customers (RFC 6598). A network
// with any other range would make these addresses unreachable from its node.
func private(p netip.Prefix) bool {
	for _, free := range []string{"10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10"} {
		if all := netip.MustParsePrefix(free); all.Contains(p.Addr()) && p.Bits() >= all.Bits() {
			return true
		}
	}
	return false
}

var dotted = lazyregexp.New(`/\.\.?(/|$)`)

// IsDevice reports whether a text has the form of the name of a device.
func IsDevice(name string) bool { return forms["device"].matches(name) }
