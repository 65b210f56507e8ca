package cloudhypervisor

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"writ"
	"writ/sal"
	"writ/sal/catalog"
)

// writeSeed writes the disk that cloud-init reads at the first boot (NoCloud). It is the only place with values of
// secrets, and only its owner may read the file.
func (j *job) writeSeed(args *catalog.MachineCreate, r *sal.Record[own]) error {
	user, err := userData(args)
	if err != nil {
		return err
	}
	given, err := args.CloudInit.Reveal()
	if err != nil {
		return err
	}
	image, err := fatImage("CIDATA", []file{
		{"meta-data", metaData(args, r)},
		{"user-data", user},
		{"network-config", networkConfig(r.Own.Ports, setsResolver([]byte(given)))},
	})
	if err != nil {
		return writ.Errorf(writ.CodeArgumentsInvalid, "the cloud-init data of %s is too large: %w", r.Resource, err).
			WithHint("put large data on a volume")
	}
	j.step("write the cloud-init disk")
	if err := writeImage(filepath.Join(j.dir, seedName), image); err != nil {
		return sal.HostError("write the cloud-init disk", err)
	}
	return nil
}

// writeImage writes an image as a sparse file. It does not sync the file, so that the start of the machine need not
// wait. syncSeed syncs it later.
//
//failpoint:none the caller names the write
func writeImage(path string, image []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	if _, err = f.Write(image); err == nil {
		err = f.Truncate(seedSize)
	}
	return errors.Join(err, f.Close())
}

// syncSeed syncs the cloud-init disk. Without this, a power cut could lose the values of secrets, which are stored
// nowhere else.
func (j *job) syncSeed() error {
	j.step("sync the cloud-init disk")
	f, err := os.OpenFile(filepath.Join(j.dir, seedName), os.O_WRONLY, 0)
	if err == nil {
		err = errors.Join(f.Sync(), f.Close(), sal.SyncDir(j.dir), sal.SyncDir(j.machines()), sal.SyncDir(j.Dir))
	}
	if err != nil {
		return sal.HostError("write the cloud-init disk", err)
	}
	return nil
}

// metaData returns JSON, which is valid YAML. The instance ID is the UID of the machine, so a recreated machine has a
// first boot again. A machine name may end with hyphens, but systemd rejects such a host name.
func metaData(args *catalog.MachineCreate, r *sal.Record[own]) []byte {
	m := map[string]any{"instance-id": r.UID, "local-hostname": strings.TrimRight(r.Resource.Name, "-")}
	if len(args.SSHKeys) > 0 {
		m["public-keys"] = args.SSHKeys
	}
	return asJSON(m)
}

// Routes of a guest. overlay is the address range behind the gateways of the overlay.
//
// A reply must leave by the interface that received the request: if it left by the first interface, the network would
// drop it for its source address. Therefore each further interface has its own routing table, and rules select the
// table by source address. Only netplan supports tables and rules. Where cloud-init writes another format, it drops the
// rules and puts the routes of all tables into the main table. For this case, the first interface has more specific
// routes, which the kernel prefers: overlay instead of wideOverlay, and also lowIPv4 and highIPv4 beside everyIPv4.
const (
	overlay     = "400::/7"
	wideOverlay = "400::/6"
	everyIPv4   = "0.0.0.0/0"
	lowIPv4     = "0.0.0.0/1"
	highIPv4    = "128.0.0.0/1"
	firstTable  = 1024 // for the second interface; same number as for containers
	mainTable   = 254  // the kernel's main table
	// firstRule is the priority of the first rule. All rules must come before the kernel's rule for the main table,
	// 32766.
	firstRule = 30000
)

// rulesOf returns the routing rules for packets from an address of the interface with index i. Packets to the address's
// own range use the main table; other packets use the table of the interface.
func rulesOf(address netip.Prefix, i int) []map[string]any {
	from := netip.PrefixFrom(address.Addr(), address.Addr().BitLen()).String()
	return []map[string]any{
		{"from": from, "to": address.Masked().String(), "table": mainTable, "priority": firstRule + 2*i},
		{"from": from, "table": firstTable + i, "priority": firstRule + 2*i + 1},
	}
}

// outward returns the IPv4 ranges with a route through the first interface that has a router.
func outward(ports []sal.Port) []string {
	routers := 0
	for _, p := range ports {
		if p.Router.IsValid() {
			routers++
		}
	}
	if routers > 1 {
		return []string{everyIPv4, lowIPv4, highIPv4}
	}
	return []string{everyIPv4}
}

// networkConfig returns the network configuration in netplan's format (version 2), as JSON. It matches interfaces by
// hardware address, because the guest chooses their names.
func networkConfig(ports []sal.Port, setsResolver bool) []byte {
	interfaces := map[string]any{}
	routed := false
	for i, p := range ports {
		one := map[string]any{
			"match":     map[string]any{"macaddress": p.MAC.String()},
			"dhcp4":     false,
			"dhcp6":     false,
			"accept-ra": false,
		}
		if p.MTU > 0 {
			one["mtu"] = p.MTU
		}
		var addresses []string
		var routes, rules []map[string]any
		if p.IPv6.IsValid() {
			addresses = append(addresses, p.IPv6.String())
		}
		switch {
		case p.Gateway.IsValid() && i == 0:
			routes = append(routes, map[string]any{"to": overlay, "via": p.Gateway.String()})
		case p.Gateway.IsValid() && p.IPv6.IsValid():
			routes = append(routes, map[string]any{"to": wideOverlay, "via": p.Gateway.String(), "table": firstTable + i})
			rules = rulesOf(p.IPv6, i)
		}
		if p.IPv4.IsValid() {
			addresses = append(addresses, p.IPv4.String())
		}
		switch {
		case !p.Router.IsValid():
		case !routed:
			routed = true
			for _, to := range outward(ports) {
				routes = append(routes, map[string]any{"to": to, "via": p.Router.String()})
			}
		case p.IPv4.IsValid():
			routes = append(routes, map[string]any{"to": everyIPv4, "via": p.Router.String(), "table": firstTable + i})
			rules = append(rules, rulesOf(p.IPv4, i)...)
		}
		if len(addresses) > 0 {
			one["addresses"] = addresses
		}
		if len(routes) > 0 {
			one["routes"] = routes
		}
		if len(rules) > 0 {
			one["routing-policy"] = rules
		}
		if len(p.Nameservers) > 0 && !setsResolver {
			one["nameservers"] = map[string]any{"addresses": p.Nameservers}
		}
		interfaces[fmt.Sprintf("net%d", i)] = one
	}
	return asJSON(map[string]any{"version": 2, "ethernets": interfaces})
}

// asJSON returns a value as JSON on one line. YAML parsers read it as well: characters that YAML allows only in escaped
// form are escaped.
func asJSON(v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	var escaped []byte
	for _, r := range string(text) {
		if r >= 0x7f && r < 0xa0 || r == 0xfffe || r == 0xffff {
			escaped = fmt.Appendf(escaped, `\u%04x`, r)
		} else {
			escaped = utf8.AppendRune(escaped, r)
		}
	}
	return append(escaped, '\n')
}
