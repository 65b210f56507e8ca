package firewall

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/google/nftables/expr"
)

// SharedPort is a port of the host that leads to several links.
type SharedPort struct {
	Protocol string
	Port     int64
}

// Name returns the name of the rules of the port. It is not the name of a device.
func (p SharedPort) Name() string { return fmt.Sprintf("%s-%d", p.Protocol, p.Port) }

// parseSharedPort is the inverse of Name.
func parseSharedPort(name string) (p SharedPort, ok bool) {
	protocol, text, _ := strings.Cut(name, "-")
	port, err := strconv.ParseUint(text, 10, 16)
	return SharedPort{protocol, int64(port)}, err == nil && (protocol == "tcp" || protocol == "udp")
}

// shareChain returns the name of the chain that selects the link of a shared port.
func shareChain(name string) string { return "share-" + name }

// SharedRules returns the rules of a shared port. Each new connection leads to one of the links with these devices,
// with the same probability. The links must have their rules already. Without devices, the port is not forwarded.
//
// A random number selects the link. In contrast to a counter or a hash, it needs no further kernel module.
func SharedRules(p SharedPort, devices []string) Ruleset {
	c := chain{inet, shareChain(p.Name()), nil, nil}
	for i, device := range devices {
		c.rules = append(c.rules, rule{
			text: fmt.Sprintf("%d of %d: %s", i+1, len(devices), device), match: oneIn(len(devices) - i),
			then: jump(targetChain(device)),
		})
	}
	return Ruleset{
		name: p.Name(), shared: linkBase, chains: []chain{c},
		entries: []entry{{mapOfPorts(p.Protocol), portKey(p.Port), c.name}},
	}
}

// oneIn matches one of n packets on average.
func oneIn(n int) []expr.Any {
	if n == 1 {
		return nil
	}
	limit := binary.BigEndian.AppendUint32(nil, uint32(math.MaxUint32/uint64(n)))
	return []expr.Any{
		load(expr.MetaKeyPRANDOM),
		// the kernel compares bytes from left to right
		&expr.Byteorder{SourceRegister: register, DestRegister: register, Op: expr.ByteorderHton, Len: 4, Size: 4},
		compare(expr.CmpOpLt, limit),
	}
}

// SharedPorts returns the ports with shared rules.
func (t *Tables) SharedPorts() (all []SharedPort, err error) {
	names, err := t.Devices()
	if err != nil {
		return nil, err
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		if p, ok := parseSharedPort(name); ok {
			all = append(all, p)
		}
	}
	return all, nil
}
