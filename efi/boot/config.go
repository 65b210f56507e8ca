package boot

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"writ"
)

// Config says what a machine is to become. It is read from words "writ.NAME=VALUE", which stand in a file of the image, on the command line of
// the kernel, and in credentials that the boot loader brings. What is read later counts.
type Config struct {
	Name        string   // of the node; made of the first network card's address if ""
	Supervisors []string // addresses of node APIs
	Redis       string   // address of the datacenter's Redis
	Join        string   // token with which the node joins; a secret
	Cluster     string   // id of the cluster to believe in, for a node without a token: it waits to be approved
	Drivers     string   // as --drivers of the runner; its default if ""
	ImageAllow  string   // as --image-allow of the runner: images come from the internet only if ""
	Data        string   // label of the file system with the node's data; it is in memory if "" and Disk is "", too
	Disk        string   // serial number of the disk with that file system, which is made there if the disk is empty; no disk is written to if ""

	Boot string // where the stages of the start are reported to, http://HOST/PATH; nowhere if ""

	TimeServers []string // asked by NTP; the clock of the machine is believed if there are none

	Watchdog time.Duration // after which a machine that hangs is restarted; as usual if 0, and never if noWatchdog

	Interface   string         // name or hardware address of the network card that the next three are for; every card if ""
	VLAN        int            // the card has its addresses in this VLAN, and none outside; 0 for none
	Addresses   []netip.Prefix // IPv4 and IPv6; the card asks for others only if there are none
	Gateways    []netip.Addr   // of a card with addresses
	Nameservers []netip.Addr   // before those that the network tells
}

// The ids of VLANs that a network can have: the two others of 12 bits mean something else.
const (
	firstVLAN = 1
	lastVLAN  = 4094
)

// prefix begins the words that are ours; joinWord is the one that is a secret.
const (
	prefix   = "writ."
	joinWord = prefix + "join"

	clusterWord = prefix + "cluster"
	vlanWord    = prefix + "vlan"
)

var clusterPattern = regexp.MustCompile(`^[0-9a-f]{64}$`)

// hidden stands for a secret.
const hidden = "(hidden)"

// setting is a word that is known.
type setting struct {
	name string
	set  func(c *Config, value string) error
}

// settings are all of them.
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

// list parses values that commas separate. It is empty if one of them is wrong.
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

// hostPrefix parses the address of a host with the length of its network.
func hostPrefix(text string) (netip.Prefix, error) {
	p, err := netip.ParsePrefix(text)
	if err == nil && (p.Addr().IsUnspecified() || p.Addr().IsMulticast() || p.Addr().Is4In6()) {
		err = errors.New("it is no address of a host")
	}
	return p, err
}

// known lists the words.
func known() (names []string) {
	for _, s := range settings {
		names = append(names, s.name)
	}
	return names
}

// Read takes the words of a text that are ours. Others, such as those of the kernel, are nothing to it. One that is wrong leaves the rest in
// force: the error has a sentence for each, and none has the value of a secret.
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
			failed = append(failed, writ.Errorf(writ.CodeUsage, "there is no setting %s", name).WithHint("settings are %s", strings.Join(known(), ", ")))
			continue
		case !ok || value == "":
			failed = append(failed, writ.Errorf(writ.CodeUsage, "%s has no value", name).WithHint("write %s=VALUE, without spaces", name))
			continue
		}
		if err := settings[i].set(c, value); err != nil {
			if name == joinWord {
				value = hidden
			}
			failed = append(failed, writ.Errorf(writ.CodeUsage, "%s=%s is not possible: %v", name, value, err))
		}
	}
	return errors.Join(failed...)
}

// usualLabel is that of the file system with the node's data, if only its disk is named.
const usualLabel = "writ-data"

// label is that of the file system with the node's data, "" if they are in memory.
func (c *Config) label() string {
	if c.Data == "" && c.Disk != "" {
		return usualLabel
	}
	return c.Data
}

// Missing says what a node cannot do without. One that has joined needs no token.
func (c *Config) Missing(joined bool) error {
	switch {
	case len(c.Supervisors) == 0:
		return writ.Errorf(writ.CodeUsage, "the address of the supervisor's node API is missing").
			WithHint("%ssupervisor=https://HOST:7441 on the command line of the kernel, or `writ efi build --supervisor`", prefix)
	case c.Redis == "":
		return writ.Errorf(writ.CodeUsage, "the address of the datacenter's Redis is missing").
			WithHint("%sredis=rediss://HOST:6379/0 on the command line of the kernel, or `writ efi build --redis`", prefix)
	case c.Join == "" && c.Cluster == "" && !joined:
		return writ.Errorf(writ.CodeUsage, "the token with which the node joins is missing").
			WithHint("`writ token create` makes one; give it as %s=TOKEN in a credential, or give %s=ID and approve the machine", joinWord, clusterWord)
	}
	return nil
}

// Redacted is a command line without its secrets.
func Redacted(cmdline string) string {
	words := strings.Fields(cmdline)
	for i, word := range words {
		if strings.HasPrefix(word, joinWord+"=") {
			words[i] = joinWord + "=" + hidden
		}
	}
	return strings.Join(words, " ")
}

// nameFor is the name of a node that nobody has named.
func nameFor(card net.HardwareAddr) string {
	if len(card) == 0 {
		return "node"
	}
	return "node-" + strings.ReplaceAll(card.String(), ":", "")
}
