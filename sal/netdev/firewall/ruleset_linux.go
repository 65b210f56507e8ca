package firewall

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
)

// The maps of the tables. Each one maps device names, addresses or ports to the chains that process their packets. The
// comments name the family of the table and the key.
const (
	mapInto     = "into"     // inet: outgoing bridge of a routed packet
	mapFrom     = "from"     // inet: incoming bridge of a packet
	mapToHost   = "to-host"  // inet: incoming bridge of a packet for the host itself
	mapAddress6 = "address6" // inet: destination address
	mapAddress4 = "address4"
	mapDevice   = "ports" // bridge: incoming port of a packet
	mapOnto     = "onto"  // bridge: outgoing port of a packet from the host

	mapTCP    = "published-tcp" // inet: destination port of a connection to the host
	mapUDP    = "published-udp"
	mapSource = "link-source" // inet: outgoing link of a new connection
	mapLink   = "link-into"   // inet: outgoing link of a packet from the host
	mapGuard  = "link-guard"  // inet: incoming link of a packet
)

// maps returns all maps with the types of their keys.
func maps() map[string]nftables.SetDatatype {
	return map[string]nftables.SetDatatype{
		mapInto: nftables.TypeIFName, mapFrom: nftables.TypeIFName, mapToHost: nftables.TypeIFName,
		mapAddress6: nftables.TypeIP6Addr, mapAddress4: nftables.TypeIPAddr,
		mapDevice: nftables.TypeIFName, mapOnto: nftables.TypeIFName,
		mapTCP: nftables.TypeInetService, mapUDP: nftables.TypeInetService,
		mapSource: nftables.TypeIFName, mapLink: nftables.TypeIFName, mapGuard: nftables.TypeIFName,
	}
}

// mapOf returns a map by its name.
func mapOf(name string) *nftables.Set {
	return &nftables.Set{
		Table: tableOf(familyOf(name)), Name: name, IsMap: true, KeyType: maps()[name], DataType: nftables.TypeVerdict,
	}
}

// The families of the two tables.
const (
	inet   = nftables.TableFamilyINet
	bridge = nftables.TableFamilyBridge
)

// familyOf returns the family of the table that contains a map.
func familyOf(name string) nftables.TableFamily {
	if name == mapDevice || name == mapOnto {
		return bridge
	}
	return inet
}

// Ruleset holds the rules of a network, port or link. It is created and updated as a whole.
type Ruleset struct {
	name     string         // of the device or shared port; suffix of its chains, prefix of its counters
	shared   func() Ruleset // rules that it needs in addition to the rules of all networks; may be nil
	chains   []chain
	entries  []entry
	counters []counter
}

type chain struct {
	family nftables.TableFamily
	name   string
	hook   *hook // nil if other chains jump to it
	rules  []rule
}

type hook struct {
	kind     nftables.ChainType
	at       *nftables.ChainHook
	priority *nftables.ChainPriority
}

// entry maps a key of a map to a chain.
type entry struct {
	in    string
	key   []byte
	chain string
}

// find returns the index of the entry with the same map and key, or -1.
func (e entry) find(all []entry) int {
	return slices.IndexFunc(all, func(other entry) bool { return other.in == e.in && bytes.Equal(other.key, e.key) })
}

// device returns the key of an entry of a map whose keys are device names.
func (e entry) device() string { return strings.TrimRight(string(e.key), "\x00") }

type counter struct {
	family nftables.TableFamily
	name   string
}

// rule is one rule. Its comment in the kernel is a shortened description with a digest, and identifies the rule in
// comparisons.
type rule struct {
	text  string // distinguishes the rule from other rules of its chain
	match []expr.Any
	sets  []*set // sets that match uses, in the order of its lookups
	then  []expr.Any
}

// set is a list of values or ranges that belongs to one rule.
type set struct {
	of       nftables.SetDatatype
	elements []nftables.SetElement
	interval bool
}

// comment returns the comment of a rule in the kernel.
func (r rule) comment() string {
	sum := sha256.Sum256([]byte(r.text))
	return fmt.Sprintf("%.80s [%x]", r.text, sum[:4])
}

// Names of the chains of a ruleset.
func intoChain(device string) string  { return "into-" + device }
func fromChain(device string) string  { return "from-" + device }
func allowChain(device string) string { return "allow-" + device }
func natChain(device string) string   { return "nat-" + device }

// Names of the further chains of a link.
func guardChain(device string) string  { return "guard-" + device }
func targetChain(device string) string { return "target-" + device }
func sourceChain(device string) string { return "source-" + device }

// Names of the counters of a ruleset.
func deniedCounter(device string) string  { return device + "-denied" }
func spoofedCounter(device string) string { return device + "-spoofed" }

var (
	linkLocal   = netip.MustParsePrefix("fe80::/10")
	multicast6  = netip.MustParsePrefix("ff00::/8")
	multicast4  = netip.MustParsePrefix("224.0.0.0/4")
	loopback4   = netip.MustParsePrefix("127.0.0.0/8")
	unspecified = netip.MustParsePrefix("::/128")
)

// ownerOf returns the name of the device or shared port that a chain or counter of the tables belongs to. It returns ""
// for chains and counters that all networks share.
func ownerOf(name string) string {
	for _, prefix := range []string{"into-", "from-", "allow-", "nat-", "guard-", "target-", "source-", "share-"} {
		if device, found := strings.CutPrefix(name, prefix); found {
			return device
		}
	}
	for _, suffix := range []string{"-denied", "-spoofed"} {
		if device, found := strings.CutSuffix(name, suffix); found && device != hostChain {
			return device
		}
	}
	return ""
}
