package boot

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"writ"
	"writ/efi/boot/netconfig"
	"writ/internal/lazyregexp"
)

// Config holds the settings of a machine, words of the form "writ.NAME=VALUE". They come from a file of the image, from
// the kernel's command line and from credentials of the boot loader. If a setting is repeated, the last value wins.
type Config struct {
	netconfig.Settings
	Supervisors []string // addresses of node APIs
	Redis       string   // address of the datacenter's Redis
	Join        string   // join token; a secret
	Cluster     string   // id of the trusted cluster, for a node without a token that waits for approval
	Drivers     string   // the runner's --drivers; "" for its default
	ImageAllow  string   // the runner's --image-allow; "" allows images from the internet only
	Data        string   // label of the file system with the node's data; the data is in memory if Data and Disk are ""
	// Disk is the serial number of the data disk. If this disk is empty, a file system is made on it. If Disk is "", no
	// disk is formatted.
	Disk string

	Boot string // URL for reports of the start, http://HOST/PATH; "" for none

	TimeServers []string // NTP servers; if empty, the hardware clock is trusted

	Watchdog time.Duration // a hung machine restarts after this time; 0 for the default, noWatchdog for never
}

// The valid range of VLAN ids. The 12-bit values 0 and 4095 are reserved.
const (
	firstVLAN = 1
	lastVLAN  = 4094
)

// Names of settings. The value of joinWord is a secret.
const (
	prefix   = "writ."
	joinWord = prefix + "join"

	clusterWord = prefix + "cluster"
	vlanWord    = prefix + "vlan"
)

var clusterPattern = lazyregexp.New(`^[0-9a-f]{64}$`)

// hidden replaces a secret in texts.
const hidden = "(hidden)"

// setting is a known setting and the parser of its value.
type setting struct {
	name string
	set  func(c *Config, value string) error
}

// settings lists all known settings.
var settings = []setting{
	{prefix + "name", func(c *Config, v string) error {
		if !writ.ValidName(v) {
			return errors.New("use 1 to 63 lower-case letters, digits and hyphens")
		}
		c.Name = v
		return nil
	}},
	{prefix + "supervisor", func(c *Config, v string) error { c.Supervisors = strings.Split(v, ","); return nil }},
	{prefix + "redis", func(c *Config, v string) error { c.Redis = v; return nil }},
	{joinWord, func(c *Config, v string) error { c.Join = v; return nil }},
	{clusterWord, func(c *Config, v string) error {
		if !clusterPattern.MatchString(v) {
			return errors.New("the id of a cluster has 64 hex digits")
		}
		c.Cluster = v
		return nil
	}},
	{prefix + "drivers", func(c *Config, v string) error { c.Drivers = v; return nil }},
	{prefix + "image-allow", func(c *Config, v string) error { c.ImageAllow = v; return nil }},
	{prefix + "data", func(c *Config, v string) error { c.Data = v; return nil }},
	{prefix + "disk", func(c *Config, v string) error { c.Disk = v; return nil }},
	{prefix + "boot", func(c *Config, v string) (err error) {
		c.Boot, err = reportAddress(v)
		return err
	}},
	{prefix + "ntp", func(c *Config, v string) error { c.TimeServers = strings.Split(v, ","); return nil }},
	{prefix + "watchdog", func(c *Config, v string) (err error) {
		c.Watchdog, err = parseWatchdog(v)
		return err
	}},
	{prefix + "interface", func(c *Config, v string) error { c.Interface = strings.ToLower(v); return nil }},
	{vlanWord, func(c *Config, v string) error {
		id, err := strconv.Atoi(v)
		if err != nil || id < firstVLAN || id > lastVLAN {
			return fmt.Errorf("the id of a VLAN is a number from %d to %d", firstVLAN, lastVLAN)
		}
		c.VLAN = id
		return nil
	}},
	{prefix + "address", func(c *Config, v string) (err error) {
		c.Addresses, err = list(v, hostPrefix)
		return err
	}},
	{prefix + "gateway", func(c *Config, v string) (err error) {
		c.Gateways, err = list(v, netip.ParseAddr)
		return err
	}},
	{prefix + "nameserver", func(c *Config, v string) (err error) {
		c.Nameservers, err = list(v, netip.ParseAddr)
		return err
	}},
}

// list parses comma-separated values. It returns an error if any value is invalid.
func list[T any](text string, parse func(string) (T, error)) (all []T, err error) {
	for one := range strings.SplitSeq(text, ",") {
		value, err := parse(one)
		if err != nil {
			return nil, err
		}
		all = append(all, value)
	}
	return all, nil
}

// hostPrefix parses a host address with its prefix length.
func hostPrefix(text string) (netip.Prefix, error) {
	p, err := netip.ParsePrefix(text)
	if err == nil && (p.Addr().IsUnspecified() || p.Addr().IsMulticast() || p.Addr().Is4In6()) {
		err = errors.New("it is not a host address")
	}
	return p, err
}

// known returns the names of all settings.
func known() (names []string) {
	for _, s := range settings {
		names = append(names, s.name)
	}
	return names
}

// Read applies the settings in text and ignores other words, such as options of the kernel. An invalid setting does not
// affect the others. The returned error joins one error per invalid setting; it never contains a secret.
func (c *Config) Read(text string) error {
	var failed []error
	for word := range strings.FieldsSeq(text) {
		name, value, ok := strings.Cut(word, "=")
		if !strings.HasPrefix(name, prefix) {
			continue
		}
		i := slices.IndexFunc(settings, func(s setting) bool { return s.name == name })
		switch {
		case i < 0:
			failed = append(failed, writ.Errorf(writ.CodeUsage, "unknown setting %s", name).WithHint("settings are %s",
				strings.Join(known(), ", ")))
			continue
		case !ok || value == "":
			failed = append(failed,
				writ.Errorf(writ.CodeUsage, "%s has no value", name).WithHint("write %s=VALUE, without spaces", name))
			continue
		}
		if err := settings[i].set(c, value); err != nil {
			if name == joinWord {
				value = hidden
			}
			failed = append(failed, writ.Errorf(writ.CodeUsage, "%s=%s is invalid: %v", name, value, err))
		}
	}
	return errors.Join(failed...)
}

// usualLabel is the label of the data file system if the settings name only the disk.
const usualLabel = "writ-data"

// label returns the label of the data file system, or "" if the data is in memory.
func (c *Config) label() string {
	if c.Data == "" && c.Disk != "" {
		return usualLabel
	}
	return c.Data
}

// Missing returns an error if a required setting is unset. A node that has joined needs no token.
func (c *Config) Missing(joined bool) error {
	switch {
	case len(c.Supervisors) == 0:
		return writ.Errorf(writ.CodeUsage, "the address of the supervisor's node API is missing").
			WithHint("%ssupervisor=https://HOST:7441 on the command line of the kernel, or `writ efi build --supervisor`",
				prefix)
	case c.Redis == "":
		return writ.Errorf(writ.CodeUsage, "the address of the datacenter's Redis is missing").
			WithHint("%sredis=rediss://HOST:6379/0 on the command line of the kernel, or `writ efi build --redis`",
				prefix)
	case c.Join == "" && c.Cluster == "" && !joined:
		return writ.Errorf(writ.CodeUsage, "the join token is missing").
			WithHint("`writ token create` makes one; give it as %s=TOKEN in a credential, or give %s=ID and approve the machine",
				joinWord, clusterWord)
	}
	return nil
}

// Redacted returns a kernel command line without its secrets.
func Redacted(cmdline string) string {
	words := strings.Fields(cmdline)
	for i, word := range words {
		if strings.HasPrefix(word, joinWord+"=") {
			words[i] = joinWord + "=" + hidden
		}
	}
	return strings.Join(words, " ")
}
